package trijoin.realtime;

import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
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
 * The cells of a partition, as Spark's stateful operator. Rows come one by one: the number of their stream, and a struct
 * for each stream, of which one is not NULL. Spark's state store has every row; the index in memory outlives the
 * operator, which Spark makes anew in each batch.
 */
public final class ThetaJoin extends StatefulProcessor<Integer, InternalRow, InternalRow> {
    private static final long serialVersionUID = 1L;

    /** By query, node and partition: the cells of a run, and the batch that left them, as long as there is memory. */
    private static final Map<String, SoftReference<Left>> LEFT = new ConcurrentHashMap<>();

    private record Left(String run, long batch, Map<Integer, Cell> cells) {}

    private final String name;
    private final JoinPlan plan;
    private final StructType[] types;
    private final Expression[] expressions;

    private transient List<MapState<Long, byte[]>> states;
    private transient UnsafeProjection[] packers;
    private transient BasePredicate[] conditions;
    private transient Map<Integer, Cell> cells;

    ThetaJoin(String name, JoinPlan plan, StructType[] types, Expression[] expressions) {
        this.name = name;
        this.plan = plan;
        this.types = types;
        this.expressions = expressions;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        states = new ArrayList<>();
        packers = new UnsafeProjection[types.length];
        for (int rank = 0; rank < types.length; rank++) {
            states.add(getHandle().getMapState("rows" + rank, Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE()));
            packers[rank] = UnsafeProjection.create(types[rank]);
        }
        conditions = new BasePredicate[expressions.length];
        for (int number = 0; number < expressions.length; number++) {
            conditions[number] = Predicate.create(expressions[number]);
        }
        QueryInfo query = getHandle().getQueryInfo();
        TaskContext task = TaskContext.get();
        cells = new HashMap<>();
        if (task == null) { // the driver looks at the states only
            return;
        }
        long batch = query.getBatchId();
        String run = query.getRunId().toString();
        String place = query.getQueryId() + " " + name + " " + task.partitionId();
        // A task that is tried again finds nothing: what it left is not what the state has.
        SoftReference<Left> kept = LEFT.remove(place);
        Left left = kept == null ? null : kept.get();
        if (left != null && left.run.equals(run) && left.batch == batch - 1) {
            cells = left.cells;
        }
        task.addTaskCompletionListener(ended -> {
            if (ended.isCompleted() && !ended.isFailed() && !ended.isInterrupted()) {
                LEFT.put(place, new SoftReference<>(new Left(run, batch, cells)));
            }
        });
    }

    @Override
    public Iterator<InternalRow> handleInputRows(Integer slot, Iterator<InternalRow> rows, TimerValues timers) {
        Cell cell = cells.computeIfAbsent(slot, this::read);
        long watermark = timers.getCurrentWatermarkInMs() * 1000;
        cell.expire(watermark, (rank, number) -> states.get(rank).removeKey(number));
        return rows.flatMap(row -> results(cell, row, watermark));
    }

    private Iterator<InternalRow> results(Cell cell, InternalRow packed, long watermark) {
        int rank = packed.getInt(0);
        InternalRow values = packed.getStruct(rank + 1, types[rank].size());
        int time = plan.streams[rank].time;
        if (time >= 0 && watermark > 0 && !values.isNullAt(time) && values.getLong(time) <= watermark) {
            return scala.collection.Iterator$.MODULE$.empty(); // late
        }
        UnsafeRow row = packers[rank].apply(values).copy();
        long number = cell.store(rank, row);
        states.get(rank).updateValue(number, row.getBytes());
        return CollectionConverters.asScala(cell.results(rank, row));
    }

    /** Read a cell back from the state, after a restart or a failure. */
    private Cell read(Integer slot) {
        Cell cell = new Cell(plan, types, conditions);
        for (int rank = 0; rank < types.length; rank++) {
            Iterator<Tuple2<Long, byte[]>> saved = states.get(rank).iterator();
            while (saved.hasNext()) {
                Tuple2<Long, byte[]> one = saved.next();
                UnsafeRow row = new UnsafeRow(types[rank].size());
                row.pointTo(one._2, one._2.length);
                cell.restore(rank, one._1, row);
            }
        }
        return cell;
    }
}
