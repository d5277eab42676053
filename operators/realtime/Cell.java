package trijoin.realtime;

import java.util.Iterator;
import java.util.function.IntFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The rows of a cell. A row that comes is stored, and probes one stream after the other for the rows that were there
 * before it (UMJoin, 004 section 3.1.1): each result comes with the last of its rows, once.
 */
final class Cell {
    private final JoinPlan plan;
    private final Column[][] columns;
    private final Rows[] streams;
    private long next;
    private long expired = Long.MIN_VALUE;

    Cell(JoinPlan plan, Column[][] columns) {
        this.plan = plan;
        this.columns = columns;
        streams = new Rows[columns.length];
        for (int rank = 0; rank < streams.length; rank++) {
            streams[rank] = new Rows(plan.streams[rank], columns[rank]);
        }
    }

    /** Give the stores of a batch, by rank. */
    void keepIn(IntFunction<Rows.Durable> stores) {
        for (int rank = 0; rank < streams.length; rank++) {
            streams[rank].keepIn(stores.apply(rank));
        }
    }

    Rows stream(int rank) {
        return streams[rank];
    }

    /** Store a new row; where more than so many bytes are in memory, the largest stream lets some leave. */
    void store(int rank, UnsafeRow row, long memory) {
        streams[rank].put(next++, row);
        Rows largest = streams[rank];
        long bytes = 0;
        for (Rows one : streams) {
            bytes += one.bytes();
            largest = one.bytes() > largest.bytes() ? one : largest;
        }
        if (bytes > memory) {
            largest.spill();
        }
    }

    /** Take a row from the store. */
    void restore(int rank, long number, UnsafeRow row) {
        streams[rank].restore(number, row);
        next = Math.max(next, number + 1);
    }

    /** Forget the rows that no row after a watermark (microseconds) joins; return how many. */
    long expire(long watermark) {
        long gone = 0;
        if (watermark > expired) {
            expired = watermark;
            for (Rows one : streams) {
                gone += one.expire(watermark);
            }
        }
        return gone;
    }

    /** The results of a row with the rows of the other streams: by rank, a row each. */
    Iterator<InternalRow> results(int rank, UnsafeRow row, BasePredicate[] conditions, Report report) {
        return new Probe(plan, columns, streams, conditions, report, rank, row);
    }
}
