package trijoin.realtime;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a cell has done in a batch, and what it keeps: under the names of the micro-batch operator's counters
 * (task/outputs.py). The task counts, and another thread reads now and then.
 */
final class Report {
    /** Eight sizes of bucket for each power of two microseconds. */
    private static final int STEPS = 8;
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The run of the query, the join's name, the batch and the cell. */
    final String run;
    final String node;
    final long batch;
    final int slot;

    long rowsIn;
    long bytesIn;
    long results;
    long comparisons;
    long expired;
    /** The batch's watermark, in microseconds. */
    long watermark;

    private final JoinPlan plan;
    private final Cell cell;
    private final long begun = System.currentTimeMillis();
    /** By rank: rows that no other cell counts. */
    private final long[] rows;
    private final long[] newest;
    private final long[][] late;
    private final long[] latencies = new long[STEPS * Long.SIZE];

    Report(String run, String node, long batch, int slot, JoinPlan plan, Cell cell) {
        this.run = run;
        this.node = node;
        this.batch = batch;
        this.slot = slot;
        this.plan = plan;
        this.cell = cell;
        rows = new long[plan.streams.length];
        newest = new long[plan.streams.length];
        Arrays.fill(newest, Long.MIN_VALUE);
        late = new long[plan.streams.length][plan.lateness.length + 1];
    }

    void came(int rank, int size, long time, boolean counts) {
        rowsIn++;
        bytesIn += size;
        rows[rank] += counts ? 1 : 0;
        newest[rank] = Math.max(newest[rank], time);
    }

    void late(int rank, long behind) {
        int at = 0;
        while (at < plan.lateness.length && behind > plan.lateness[at]) {
            at++;
        }
        late[rank][at]++;
    }

    /** A result left so many microseconds after its last row was read. */
    void emitted(long micros) {
        results++;
        latencies[bucket(Math.max(micros, 0))]++;
    }

    static int bucket(long micros) {
        if (micros < STEPS) {
            return (int) micros;
        }
        int power = Long.SIZE - 1 - Long.numberOfLeadingZeros(micros);
        return STEPS * (power - 2) + (int) ((micros >>> (power - 3)) & (STEPS - 1));
    }

    /** The least that is above all of a bucket. */
    static long above(int bucket) {
        return bucket < STEPS ? bucket + 1 : (STEPS + bucket % STEPS + 1L) << (bucket / STEPS - 1);
    }

    String toJson() {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("node", node);
        told.put("batch", batch);
        told.put("begun", begun);
        told.put("at", System.currentTimeMillis());
        told.put("slot", slot);
        told.put("units", plan.cells);
        told.put("slots", plan.cells);
        told.put("stored", rowsIn);
        told.put("comparisons", comparisons);
        told.put("results", results);
        told.put("rows_in", rowsIn);
        told.put("bytes_in", bytesIn);
        told.put("expired", expired);
        told.put("watermark", watermark);
        Map<String, Object> inputs = new LinkedHashMap<>();
        Map<String, Object> brought = new LinkedHashMap<>();
        Map<String, Object> lateRows = new LinkedHashMap<>();
        long[] total = new long[3];
        long lateCount = 0;
        for (int rank = 0; rank < newest.length; rank++) {
            JoinPlan.Stream stream = plan.streams[rank];
            inputs.put(stream.name, newest[rank] == Long.MIN_VALUE ? null : newest[rank]);
            brought.put(stream.name, rows[rank]);
            long some = Arrays.stream(late[rank]).sum();
            if (some > 0) {
                lateRows.put(stream.name, Map.of(
                    "rows", some, "of", stream.reads, "filtered", stream.filtered, "behind", late[rank].clone()));
            }
            lateCount += some;
            long[] kept = cell.stream(rank).kept();
            for (int one = 0; one < total.length; one++) {
                total[one] += kept[one];
            }
        }
        told.put("late", lateCount);
        told.put("state_rows", total[0]);
        told.put("state_chunks", total[1]);
        told.put("state_bytes", total[2]);
        told.put("inputs", inputs);
        told.put("rows", brought);
        if (!lateRows.isEmpty()) {
            told.put("late_rows", lateRows);
        }
        Map<Long, Long> buckets = new LinkedHashMap<>();
        for (int bucket = 0; bucket < latencies.length; bucket++) {
            if (latencies[bucket] > 0) {
                buckets.put(above(bucket), latencies[bucket]);
            }
        }
        told.put("latency", buckets);
        try {
            return JSON.writeValueAsString(told);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
