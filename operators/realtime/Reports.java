package trijoin.realtime;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.rpc.ThreadSafeRpcEndpoint;
import org.apache.spark.util.RpcUtils;
import scala.PartialFunction;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Takes the reports of cells to the driver every second. Spark tells of a batch when it has ended, and that may take
 * minutes; its own messages between executors and driver carry these as texts.
 */
final class Reports {
    private static final String NAME = "trijoin-real-time";

    /** How many runs, and how many reports of a run, the driver remembers. */
    private static final int RUNS = 16, OF_RUN = 4096;

    // On executors.
    private static final Set<Report> LIVE = ConcurrentHashMap.newKeySet();
    private static ScheduledExecutorService clock;

    // On the driver.
    private static RpcEnv heard;
    private static final Map<String, Map<String, String>> BY_RUN = bounded(RUNS);

    private Reports() {}

    private static <V> Map<String, V> bounded(int most) {
        return new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, V> eldest) {
                return size() > most;
            }
        };
    }

    /** On the driver: take reports from now on. */
    static synchronized void listen() {
        RpcEnv here = SparkEnv.get().rpcEnv();
        if (heard != here) { // another SparkContext
            here.setupEndpoint(NAME, new Ear(here));
            heard = here;
        }
    }

    /** On the driver: the reports of a run from a batch on, the last of each batch and cell, a line each. */
    static String of(String run, long first) {
        StringJoiner found = new StringJoiner("\n");
        synchronized (BY_RUN) {
            BY_RUN.getOrDefault(run, Map.of()).forEach((about, report) -> {
                if (Long.parseLong(about.split(" ")[1]) >= first) {
                    found.add(report);
                }
            });
        }
        return found.toString();
    }

    private static final class Ear implements ThreadSafeRpcEndpoint {
        private final RpcEnv env;

        Ear(RpcEnv env) {
            this.env = env;
        }

        @Override
        public RpcEnv rpcEnv() {
            return env;
        }

        @Override
        public PartialFunction<Object, BoxedUnit> receive() {
            return new AbstractPartialFunction<>() {
                @Override
                public boolean isDefinedAt(Object message) {
                    return message instanceof String[];
                }

                @Override
                public <A, B> B applyOrElse(A message, scala.Function1<A, B> otherwise) {
                    if (message instanceof String[] told) {
                        synchronized (BY_RUN) {
                            BY_RUN.computeIfAbsent(told[0], absent -> bounded(OF_RUN)).put(told[1], told[2]);
                        }
                        @SuppressWarnings("unchecked")
                        B done = (B) BoxedUnit.UNIT;
                        return done;
                    }
                    return otherwise.apply(message);
                }
            };
        }
    }

    /** On an executor: tell of a cell from now on. */
    static synchronized void begin(Report report) {
        LIVE.add(report);
        if (clock == null) {
            clock = Executors.newSingleThreadScheduledExecutor(task -> {
                Thread thread = new Thread(task, NAME);
                thread.setDaemon(true);
                return thread;
            });
            clock.scheduleWithFixedDelay(() -> LIVE.forEach(Reports::send), 1, 1, TimeUnit.SECONDS);
        }
    }

    /** On an executor: tell of a cell for the last time. */
    static void end(Report report) {
        if (LIVE.remove(report)) {
            send(report);
        }
    }

    private static void send(Report report) {
        SparkEnv here = SparkEnv.get();
        if (here == null) {
            return; // the executor ends
        }
        try {
            RpcEndpointRef driver = RpcUtils.makeDriverRef(NAME, here.conf(), here.rpcEnv());
            String key = report.node + " " + report.batch + " " + report.slot;
            driver.send(new String[] {report.run, key, report.toJson()});
        } catch (RuntimeException error) { // the join goes on without
            org.slf4j.LoggerFactory.getLogger(Reports.class).debug("a report was not sent", error);
        }
    }
}
