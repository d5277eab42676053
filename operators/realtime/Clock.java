package trijoin.realtime;

import java.time.Instant;

/** The time in microseconds since 1970; Spark's own does not move within a batch. */
public final class Clock {
    private Clock() {}

    public static long micros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }
}
