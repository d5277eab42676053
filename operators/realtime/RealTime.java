package trijoin.realtime;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What the driver calls: a join's operator over its input, and a query's plan with that instead of Python's. */
public final class RealTime {
    private RealTime() {}

    /**
     * Return the results of a join: a struct of each stream's packed columns, in one column.
     *
     * @param input its columns: the number of a row's stream (INT), when it was read (BIGINT, microseconds), a struct for
     *     each stream, and the cell (INT)
     * @param conditions what Spark decides, over those structs
     * @param timed whether watermarks move
     */
    public static Dataset<Row> join(Dataset<Row> input, String name, String json, List<String> conditions, boolean timed)
            throws IOException {
        var given = (org.apache.spark.sql.classic.Dataset<Row>) input;
        LogicalPlan child = given.queryExecution().analyzed();
        List<Attribute> columns = CollectionConverters.asJava(child.output());
        List<Attribute> streams = columns.subList(2, columns.size() - 1);
        StructType[] types = streams.stream().map(one -> (StructType) one.dataType()).toArray(StructType[]::new);
        Seq<Attribute> structs = seq(streams);
        List<Expression> bound = new ArrayList<>();
        LogicalPlan empty = new LocalRelation(structs, seq(List.<InternalRow>of()), false, scala.Option.empty());
        for (String condition : conditions) {
            LogicalPlan filtered = Dataset$.MODULE$.ofRows(given.sparkSession(), empty).where(condition)
                .queryExecution().analyzed();
            bound.add(BindReferences.bindReference(
                ((Filter) filtered).condition(), org.apache.spark.sql.catalyst.expressions.package$.MODULE$
                    .AttributeSeq(structs), false));
        }
        JoinPlan plan = new ObjectMapper().readValue(json, JoinPlan.class);
        // Values are bound by position: the columns of a row have to be the first of the input.
        List<Attribute> data = columns.subList(0, columns.size() - 1);
        Attribute cell = columns.get(columns.size() - 1);
        List<Expression> fields = new ArrayList<>();
        for (Attribute one : data) {
            fields.add(Literal.create(one.name(), DataTypes.StringType));
            fields.add(one);
        }
        List<org.apache.spark.sql.types.StructField> output = new ArrayList<>();
        for (Attribute one : streams) {
            output.add(new org.apache.spark.sql.types.StructField(
                one.name(), one.dataType(), false, org.apache.spark.sql.types.Metadata.empty()));
        }
        StructType type = new StructType(output.toArray(org.apache.spark.sql.types.StructField[]::new));
        Object processor = new ThetaJoin(name, plan, types, bound.toArray(Expression[]::new));
        @SuppressWarnings("unchecked")
        var stateful = (org.apache.spark.sql.streaming.StatefulProcessor<Object, Object, Object>) processor;
        @SuppressWarnings("unchecked")
        var keys = (ExpressionEncoder<Object>) (Object) ExpressionEncoder.apply(
            (org.apache.spark.sql.catalyst.encoders.AgnosticEncoder<Integer>) Encoders.INT());
        LogicalPlan joined = new TransformWithState(
            new org.apache.spark.sql.catalyst.expressions.Cast(cell, cell.dataType(), scala.Option.empty(),
                org.apache.spark.sql.catalyst.expressions.EvalMode$.MODULE$.LEGACY()),
            new CreateNamedStruct(CollectionConverters.asScala(fields).toSeq()),
            seq(List.of(cell)),
            seq(data),
            stateful,
            timed ? TimeMode.EventTime() : TimeMode.None(),
            OutputMode.Update(),
            keys,
            attribute("joined", type),
            child,
            false,
            seq(List.of(cell)),
            seq(List.of(cell)),
            cell,
            new LocalRelation(seq(List.of(cell)), seq(List.<InternalRow>of()), false, scala.Option.empty()));
        return Dataset$.MODULE$.ofRows(given.sparkSession(), joined);
    }

    /** Return a frame with one column more: when a row was read, in microseconds since 1970. */
    public static Dataset<Row> stamped(Dataset<Row> frame, String column) {
        var given = (org.apache.spark.sql.classic.Dataset<Row>) frame;
        LogicalPlan plan = given.queryExecution().analyzed();
        List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(plan.output()));
        Expression now = new StaticInvoke(Clock.class, DataTypes.LongType, "micros", seq(List.of()), seq(List.of()),
            false, false, false, scala.Option.empty()); // not deterministic: each row has its own
        columns.add(new Alias(now, column, NamedExpression.newExprId(), seq(List.<String>of()), scala.Option.empty(),
            seq(List.<String>of())));
        return Dataset$.MODULE$.ofRows(given.sparkSession(), new Project(seq(columns), plan));
    }

    /** What the cells of a run have told from a batch on: the last report of each batch and cell, a line of JSON each. */
    public static String reports(String run, long first) {
        return Reports.of(run, first);
    }

    /** Take reports from now on. */
    public static void listen() {
        Reports.listen();
    }

    private static Attribute attribute(String name, DataType type) {
        return new AttributeReference(name, type, false, org.apache.spark.sql.types.Metadata.empty(),
            NamedExpression.newExprId(), seq(List.<String>of()));
    }

    private static <T> Seq<T> seq(List<T> items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    /**
     * Return a frame in whose plan a join's output comes from elsewhere.
     *
     * @param frame the query
     * @param key the name of the join's metric, which stands above its stages
     * @param instead the same columns in the same order
     */
    public static Dataset<Row> replaced(Dataset<Row> frame, LogicalPlan old, Dataset<Row> instead) {
        var given = (org.apache.spark.sql.classic.Dataset<Row>) frame;
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) instead).queryExecution().analyzed();
        List<NamedExpression> columns = new ArrayList<>();
        List<Attribute> from = CollectionConverters.asJava(plan.output());
        List<Attribute> to = CollectionConverters.asJava(old.output());
        for (int number = 0; number < from.size(); number++) {
            columns.add(new Alias(from.get(number), to.get(number).name(), to.get(number).exprId(),
                seq(List.<String>of()), scala.Option.empty(), seq(List.<String>of())));
        }
        LogicalPlan named = new Project(seq(columns), plan);
        LogicalPlan made = (LogicalPlan) given.queryExecution().analyzed().transformDown(
            new scala.runtime.AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
                @Override
                public boolean isDefinedAt(LogicalPlan node) {
                    return node == old;
                }

                @Override
                public <A extends LogicalPlan, B> B applyOrElse(A node, scala.Function1<A, B> otherwise) {
                    @SuppressWarnings("unchecked")
                    B result = node == old ? (B) named : otherwise.apply(node);
                    return result;
                }
            });
        return Dataset$.MODULE$.ofRows(given.sparkSession(), made);
    }

    /** Let a writer write another frame of the same columns. */
    public static void rewire(DataStreamWriter<Row> writer, Dataset<Row> frame) throws ReflectiveOperationException {
        Field field = writer.getClass().getDeclaredField("ds");
        field.setAccessible(true);
        field.set(writer, frame);
    }
}
