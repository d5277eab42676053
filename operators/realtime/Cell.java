package trijoin.realtime;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of a cell in memory, and their indexes. A row that comes is stored, and probes one stream after the other for
 * the rows that were there before it (UMJoin, 004 section 3.1.1): each result comes with the last of its rows, once.
 */
final class Cell {
    private static final long NONE = Long.MIN_VALUE;

    private final JoinPlan plan;
    private final StructType[] types;
    private final BasePredicate[] conditions;

    /** By rank and number: the rows by key, and the rows by event time where they expire. */
    private final List<List<TreeMap<Long, List<Stored>>>> indexes = new ArrayList<>();
    private final List<TreeMap<Long, List<Stored>>> times = new ArrayList<>();
    private final List<Map<Long, Stored>> rows = new ArrayList<>();
    private long next;
    private long expired = NONE;

    /** A row and its number in the cell's state. */
    record Stored(long number, UnsafeRow row) {}

    Cell(JoinPlan plan, StructType[] types, BasePredicate[] conditions) {
        this.plan = plan;
        this.types = types;
        this.conditions = conditions;
        for (JoinPlan.Stream stream : plan.streams) {
            List<TreeMap<Long, List<Stored>>> own = new ArrayList<>();
            for (int ignored : stream.indexed) {
                own.add(new TreeMap<>());
            }
            indexes.add(own);
            times.add(stream.keepFor < 0 ? null : new TreeMap<>());
            rows.add(new LinkedHashMap<>());
        }
    }

    /** Number a new row and store it. */
    long store(int rank, UnsafeRow row) {
        put(rank, next, row);
        return next++;
    }

    /** Store a row that has its number. */
    void restore(int rank, long number, UnsafeRow row) {
        put(rank, number, row);
        next = Math.max(next, number + 1);
    }

    private void put(int rank, long number, UnsafeRow row) {
        Stored stored = new Stored(number, row);
        rows.get(rank).put(number, stored);
        each(rank, stored, (index, key) -> index.computeIfAbsent(key, absent -> new ArrayList<>(1)).add(stored));
    }

    /** Remove rows; each list of rows with one key is gone through once, however many of them go. */
    private void remove(int rank, List<Stored> gone) {
        Set<Long> numbers = new HashSet<>();
        Map<TreeMap<Long, List<Stored>>, Set<Long>> keys = new IdentityHashMap<>();
        for (Stored stored : gone) {
            numbers.add(stored.number);
            rows.get(rank).remove(stored.number);
            each(rank, stored, (index, key) -> keys.computeIfAbsent(index, absent -> new HashSet<>()).add(key));
        }
        keys.forEach((index, touched) -> touched.forEach(key -> {
            List<Stored> same = index.get(key);
            same.removeIf(stored -> numbers.contains(stored.number));
            if (same.isEmpty()) {
                index.remove(key);
            }
        }));
    }

    /** Call for each index that has a row, with its key there. */
    private void each(int rank, Stored stored, BiConsumer<TreeMap<Long, List<Stored>>, Long> call) {
        JoinPlan.Stream stream = plan.streams[rank];
        for (int number = 0; number < stream.indexed.length; number++) {
            int column = stream.indexed[number];
            if (!stored.row.isNullAt(column)) {
                call.accept(indexes.get(rank).get(number), Keys.key(stored.row, column, type(rank, column)));
            }
        }
        if (times.get(rank) != null) {
            call.accept(times.get(rank), stored.row.getLong(stream.time));
        }
    }

    /**
     * Forget the rows that no row after a watermark (microseconds) joins.
     *
     * @param forgotten is called with the rank and the number of each
     */
    void expire(long watermark, BiConsumer<Integer, Long> forgotten) {
        if (watermark <= expired) {
            return;
        }
        expired = watermark;
        for (int rank = 0; rank < plan.streams.length; rank++) {
            if (times.get(rank) == null) {
                continue;
            }
            long last = Keys.plus(watermark, -plan.streams[rank].keepFor);
            List<Stored> gone = new ArrayList<>();
            times.get(rank).headMap(last, true).values().forEach(gone::addAll);
            remove(rank, gone);
            for (Stored stored : gone) {
                forgotten.accept(rank, stored.number);
            }
        }
    }

    /** The results of a row with the rows of the other streams: by rank, a row each. */
    Iterator<InternalRow> results(int rank, UnsafeRow row) {
        return new Results(rank, row);
    }

    private org.apache.spark.sql.types.DataType type(int rank, int column) {
        return types[rank].apply(column).dataType();
    }

    /** Depth first: a candidate of each step, and behind it those of the next. */
    private final class Results implements Iterator<InternalRow> {
        private final JoinPlan.Step[] steps;
        private final GenericInternalRow joined = new GenericInternalRow(plan.streams.length);
        private final List<Iterator<Stored>> candidates = new ArrayList<>();
        private InternalRow found;

        Results(int rank, UnsafeRow row) {
            steps = plan.orders[rank];
            joined.update(rank, row);
            candidates.add(candidates(steps[0]));
        }

        @Override
        public boolean hasNext() {
            while (found == null && !candidates.isEmpty()) {
                int depth = candidates.size() - 1;
                JoinPlan.Step step = steps[depth];
                Iterator<Stored> here = candidates.get(depth);
                if (!here.hasNext()) {
                    candidates.remove(depth);
                    continue;
                }
                joined.update(step.rank, here.next().row);
                if (!fits(step)) {
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

        private boolean fits(JoinPlan.Step step) {
            for (JoinPlan.Difference one : step.differences) {
                if (!fits(one)) {
                    return false;
                }
            }
            return step.condition < 0 || conditions[step.condition].eval(joined);
        }

        private boolean fits(JoinPlan.Difference one) {
            InternalRow left = row(one.left);
            InternalRow right = row(one.right);
            if (left.isNullAt(one.leftColumn) || right.isNullAt(one.rightColumn)) {
                return false;
            }
            long minuend = Keys.whole(left, one.leftColumn, type(one.left, one.leftColumn));
            long subtrahend = Keys.whole(right, one.rightColumn, type(one.right, one.rightColumn));
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

        private Iterator<Stored> candidates(JoinPlan.Step step) {
            JoinPlan.Search search = step.search;
            if (search == null) {
                return rows.get(step.rank).values().iterator();
            }
            InternalRow row = row(search.source);
            if (row.isNullAt(search.column)) {
                return List.<Stored>of().iterator();
            }
            TreeMap<Long, List<Stored>> index = indexes.get(step.rank).get(search.index);
            org.apache.spark.sql.types.DataType type = type(search.source, search.column);
            if (Keys.of(type) == Keys.REAL) {
                double value = Keys.real(row, search.column, type);
                if (Double.isNaN(value) || Double.isInfinite(value)) {
                    return flat(index.values().iterator());
                }
                long first = search.least == null ? Long.MIN_VALUE : Keys.real(away(value, search.least, -1));
                long last = search.most == null ? Long.MAX_VALUE : Keys.real(away(value, search.most, 1));
                List<Stored> nan = search.nan && search.most != null ? index.get(Keys.real(Double.NaN)) : null;
                Iterator<Stored> numbers = within(index, first, last);
                return nan == null ? numbers : flat(List.of(nan, (Collection<Stored>) rest(numbers)).iterator());
            }
            long key = Keys.key(row, search.column, type);
            long first = search.leastWhole == null ? Long.MIN_VALUE : Keys.plus(key, search.leastWhole);
            long last = search.mostWhole == null ? Long.MAX_VALUE : Keys.plus(key, search.mostWhole);
            return within(index, first, last);
        }
    }

    /** A double that is at least so far away as a rounded difference (of floats, at worst) may be. */
    private static double away(double value, double amount, int sign) {
        double slack = (Math.abs(value) + Math.abs(amount)) * 0x1p-22 + Double.MIN_NORMAL;
        return value + amount + sign * slack;
    }

    private static Collection<Stored> rest(Iterator<Stored> rows) {
        List<Stored> all = new ArrayList<>();
        rows.forEachRemaining(all::add);
        return all;
    }

    private static Iterator<Stored> within(TreeMap<Long, List<Stored>> index, long first, long last) {
        if (first == last) {
            return index.getOrDefault(first, List.of()).iterator();
        }
        return first > last ? List.<Stored>of().iterator() : flat(index.subMap(first, true, last, true).values().iterator());
    }

    private static Iterator<Stored> flat(Iterator<? extends Collection<Stored>> lists) {
        return new Iterator<>() {
            private Iterator<Stored> here = List.<Stored>of().iterator();

            @Override
            public boolean hasNext() {
                while (!here.hasNext() && lists.hasNext()) {
                    here = lists.next().iterator();
                }
                return here.hasNext();
            }

            @Override
            public Stored next() {
                hasNext();
                return here.next();
            }
        };
    }
}
