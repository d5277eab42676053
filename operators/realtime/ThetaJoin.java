package trijoin.realtime;

import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.QueryInfo;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The cells of a partition, as Spark's stateful operator. Rows come one by one: the number of their stream (its bitwise
 * complement where another cell counts the row), the time at which they were read, and a struct for each stream, of which
 * one is not NULL. Spark's state store has every row; what is in memory outlives the operator, which Spark makes anew in
 * each batch.
 */
public final class ThetaJoin extends StatefulProcessor<Integer, InternalRow, InternalRow> {
    private static final long serialVersionUID = 1L;

    /** By query, node and partition: the cells of a run, and the batch that left them, as long as there is memory. */
    private static final Map<String, SoftReference<Left>> LEFT = new ConcurrentHashMap<>();

    /** The cells that tasks of this executor have now: they share its memory. */
    private static final AtomicInteger CELLS = new AtomicInteger();

    private record Left(String run, long batch, Map<Integer, Cell> cells) {}

    private final String name;
    private final JoinPlan plan;
    private final StructType[] types;
    private final Expression[] expressions;

    private transient List<MapState<Long, byte[]>> rows;
    private transient List<MapState<Long, byte[]>> segments;
    private transient UnsafeProjection[] packers;
    private transient BasePredicate[] conditions;
    private transient Column[][] columns;
    private transient QueryInfo query;
    private transient long memory;
    private transient Map<Integer, Cell> left;
    private transient Map<Integer, Cell> cells;
    private transient Map<Integer, Report> reports;

    ThetaJoin(String name, JoinPlan plan, StructType[] types, Expression[] expressions) {
        this.name = name;
        this.plan = plan;
        this.types = types;
        this.expressions = expressions;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        rows = new ArrayList<>();
        segments = new ArrayList<>();
        packers = new UnsafeProjection[types.length];
        columns = new Column[types.length][];
        for (int rank = 0; rank < types.length; rank++) {
            rows.add(state("rows" + rank));
            segments.add(state("segments" + rank));
            packers[rank] = UnsafeProjection.create(types[rank]);
            columns[rank] = Column.of(types[rank]);
        }
        conditions = new BasePredicate[expressions.length];
        for (int number = 0; number < expressions.length; number++) {
            conditions[number] = Predicate.create(expressions[number]);
        }
        query = getHandle().getQueryInfo();
        memory = plan.memory > 0 ? plan.memory : Runtime.getRuntime().maxMemory() / 5 * 2;
        left = Map.of();
        cells = new HashMap<>();
        reports = new HashMap<>();
        TaskContext task = TaskContext.get();
        if (task == null) { // the driver looks at the states only
            return;
        }
        long batch = query.getBatchId();
        String run = query.getRunId().toString();
        String place = query.getQueryId() + " " + name + " " + task.partitionId();
        // A task that is tried again finds nothing: what it left is not what the state has.
        SoftReference<Left> kept = LEFT.remove(place);
        Left found = kept == null ? null : kept.get();
        if (found != null && found.run.equals(run) && found.batch == batch - 1) {
            left = found.cells;
        }
        task.addTaskCompletionListener(ended -> {
            CELLS.addAndGet(-cells.size());
            reports.values().forEach(Reports::end);
            if (ended.isCompleted() && !ended.isFailed() && !ended.isInterrupted()) {
                Map<Integer, Cell> all = new HashMap<>(left);
                all.putAll(cells);
                LEFT.put(place, new SoftReference<>(new Left(run, batch, all)));
            }
        });
    }

    private MapState<Long, byte[]> state(String of) {
        return getHandle().getMapState(of, Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE());
    }

    @Override
    public Iterator<InternalRow> handleInputRows(Integer slot, Iterator<InternalRow> packed, TimerValues timers) {
        Cell cell = cells.computeIfAbsent(slot, this::begin);
        Report report = reports.get(slot);
        report.watermark = timers.getCurrentWatermarkInMs() * 1000;
        report.expired += cell.expire(report.watermark);
        return packed.flatMap(row -> results(cell, row, report));
    }

    private Iterator<InternalRow> results(Cell cell, InternalRow packed, Report report) {
        boolean counts = packed.getInt(0) >= 0;
        int rank = counts ? packed.getInt(0) : ~packed.getInt(0);
        InternalRow values = packed.getStruct(rank + 2, types[rank].size());
        int time = plan.streams[rank].time;
        long at = time >= 0 && !values.isNullAt(time) ? values.getLong(time) : Long.MIN_VALUE;
        if (time >= 0 && report.watermark > 0 && at != Long.MIN_VALUE && at <= report.watermark) {
            if (counts) {
                report.late(rank, report.watermark - at);
            }
            return scala.collection.Iterator$.MODULE$.empty();
        }
        UnsafeRow row = packers[rank].apply(values).copy();
        report.came(rank, row.getSizeInBytes(), at, counts);
        cell.store(rank, row, memory / Math.max(CELLS.get(), 1));
        long read = packed.getLong(1);
        return CollectionConverters.asScala(new Mapped<>(cell.results(rank, row, conditions, report), result -> {
            report.emitted(Clock.micros() - read);
            return result;
        }));
    }

    /** Take the cell that the batch before left, or read it from the state: after a restart or a failure. */
    private Cell begin(Integer slot) {
        CELLS.incrementAndGet();
        Cell cell = left.get(slot);
        boolean there = cell != null;
        if (!there) {
            cell = new Cell(plan, columns);
        }
        cell.keepIn(rank -> new Stored(rows.get(rank), segments.get(rank)));
        if (!there) {
            read(cell);
        }
        Report report = new Report(query.getRunId().toString(), name, query.getBatchId(), slot, plan, cell);
        reports.put(slot, report);
        Reports.begin(report);
        return cell;
    }

    private void read(Cell cell) {
        for (int rank = 0; rank < types.length; rank++) {
            Iterator<Tuple2<Long, byte[]>> saved = segments.get(rank).iterator();
            while (saved.hasNext()) {
                Tuple2<Long, byte[]> one = saved.next();
                cell.stream(rank).restoreSegment(one._1, one._2);
            }
            saved = rows.get(rank).iterator();
            while (saved.hasNext()) {
                Tuple2<Long, byte[]> one = saved.next();
                UnsafeRow row = new UnsafeRow(types[rank].size());
                row.pointTo(one._2, one._2.length);
                cell.restore(rank, one._1, row);
            }
        }
    }

    /** A stream's part of Spark's state store. */
    private record Stored(MapState<Long, byte[]> rows, MapState<Long, byte[]> segments) implements Rows.Durable {
        @Override
        public void put(long number, UnsafeRow row) {
            rows.updateValue(number, row.getBytes());
        }

        @Override
        public void remove(long number) {
            rows.removeKey(number);
        }

        @Override
        public void putSegment(long number, byte[] packed) {
            segments.updateValue(number, packed);
        }

        @Override
        public byte[] segment(long number) {
            return segments.getValue(number);
        }

        @Override
        public void removeSegment(long number) {
            segments.removeKey(number);
        }
    }
}
