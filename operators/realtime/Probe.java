package trijoin.realtime;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** The results of a row that comes, depth first: a candidate of each step, and behind it those of the next. */
final class Probe implements Iterator<InternalRow> {
    private final Column[][] columns;
    private final Rows[] streams;
    private final BasePredicate[] conditions;
    private final Report report;
    private final JoinPlan.Step[] steps;
    private final GenericInternalRow joined;
    private final List<Iterator<UnsafeRow>> candidates = new ArrayList<>();
    private InternalRow found;

    Probe(JoinPlan plan, Column[][] columns, Rows[] streams, BasePredicate[] conditions, Report report, int rank,
            UnsafeRow row) {
        this.columns = columns;
        this.streams = streams;
        this.conditions = conditions;
        this.report = report;
        steps = plan.orders[rank];
        joined = new GenericInternalRow(streams.length);
        joined.update(rank, row);
        candidates.add(candidates(steps[0]));
    }

    @Override
    public boolean hasNext() {
        while (found == null && !candidates.isEmpty()) {
            int depth = candidates.size() - 1;
            JoinPlan.Step step = steps[depth];
            Iterator<UnsafeRow> here = candidates.get(depth);
            if (!here.hasNext()) {
                candidates.remove(depth);
                continue;
            }
            joined.update(step.rank, here.next());
            report.comparisons++;
            if (!all(step.checks)) {
                continue;
            }
            if (depth + 1 == steps.length) {
                found = new GenericInternalRow(joined.values().clone());
            } else {
                candidates.add(candidates(steps[depth + 1]));
            }
        }
        return found != null;
    }

    @Override
    public InternalRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        InternalRow result = found;
        found = null;
        return result;
    }

    private InternalRow row(int rank) {
        return (InternalRow) joined.genericGet(rank);
    }

    private boolean all(JoinPlan.Check[] checks) {
        for (JoinPlan.Check one : checks) {
            if (!fits(one)) {
                return false;
            }
        }
        return true;
    }

    private boolean fits(JoinPlan.Check check) {
        if (check.difference != null) {
            return fits(check.difference);
        }
        if (check.any == null) {
            return conditions[check.condition].eval(joined);
        }
        for (JoinPlan.Check[] branch : check.any) {
            if (all(branch)) {
                return !check.negated;
            }
        }
        return check.negated;
    }

    private boolean fits(JoinPlan.Difference one) {
        InternalRow left = row(one.left);
        InternalRow right = row(one.right);
        Column first = columns[one.left][one.leftColumn];
        Column second = columns[one.right][one.rightColumn];
        if (first.isNull(left) || second.isNull(right)) {
            return false;
        }
        long minuend = first.whole(left);
        long subtrahend = second.whole(right);
        long value = minuend - subtrahend;
        boolean beyond = ((minuend ^ subtrahend) & (minuend ^ value)) < 0;
        if (one.lowest != null && (beyond || value < one.lowest || value > one.highest)) {
            throw new ArithmeticException("[TRIJOIN_OVERFLOW] " + one.sql + ": " + minuend + " - " + subtrahend
                + " does not fit into its type; cast the columns to a wider type");
        }
        if (beyond) { // further away than any bound
            return minuend > subtrahend ? one.most == null : one.least == null;
        }
        return (one.least == null || value >= one.least) && (one.most == null || value <= one.most);
    }

    private Iterator<UnsafeRow> candidates(JoinPlan.Step step) {
        JoinPlan.Search search = step.search;
        Rows rows = streams[step.rank];
        if (search == null) {
            return rows.all();
        }
        InternalRow row = row(search.source);
        Column column = columns[search.source][search.column];
        if (column.isNull(row)) {
            return List.<UnsafeRow>of().iterator();
        }
        if (!column.isReal()) {
            long key = column.key(row);
            return rows.between(search.index,
                search.leastWhole == null ? Long.MIN_VALUE : Column.plus(key, search.leastWhole),
                search.mostWhole == null ? Long.MAX_VALUE : Column.plus(key, search.mostWhole));
        }
        double value = column.real(row);
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return rows.between(search.index, Long.MIN_VALUE, Long.MAX_VALUE);
        }
        Iterator<UnsafeRow> numbers = rows.between(search.index,
            search.least == null ? Long.MIN_VALUE : Column.key(away(value, search.least, -1)),
            search.most == null ? Long.MAX_VALUE : Column.key(away(value, search.most, 1)));
        if (!search.nan || search.most == null) {
            return numbers;
        }
        long nan = Column.key(Double.NaN);
        return new Chained<>(List.of(rows.between(search.index, nan, nan), numbers).iterator());
    }

    /** A double that is at least so far away as a rounded difference (of floats, at worst) may be. */
    private static double away(double value, double amount, int sign) {
        double slack = (Math.abs(value) + Math.abs(amount)) * 0x1p-22 + Double.MIN_NORMAL;
        return value + amount + sign * slack;
    }
}
