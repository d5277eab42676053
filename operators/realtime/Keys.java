package trijoin.realtime;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.ByteArray;

/**
 * Order keys, as in kernels/order_keys.py: {@code a <= b} in Spark's order implies {@code key(a) <= key(b)}. An index
 * only proposes rows, so a key may be that of several values.
 */
enum Keys {
    /** Integers, and what Spark keeps as such: the value itself. */
    WHOLE,
    /** Floats and decimals: the bits of a double, in the doubles' order. */
    REAL,
    /** Texts and binaries: their first eight bytes. */
    PREFIX;

    static Keys of(DataType type) {
        if (type instanceof StringType || type instanceof BinaryType) {
            return PREFIX;
        }
        return type instanceof FloatType || type instanceof DoubleType || type instanceof DecimalType ? REAL : WHOLE;
    }

    /** The key of a value that is not NULL. */
    static long key(InternalRow row, int column, DataType type) {
        return switch (of(type)) {
            case WHOLE -> whole(row, column, type);
            case REAL -> real(real(row, column, type));
            case PREFIX -> Long.MIN_VALUE ^ (type instanceof StringType
                ? row.getUTF8String(column).getPrefix() : ByteArray.getPrefix(row.getBinary(column)));
        };
    }

    static long whole(InternalRow row, int column, DataType type) {
        if (type instanceof ByteType) {
            return row.getByte(column);
        }
        if (type instanceof ShortType) {
            return row.getShort(column);
        }
        if (type instanceof IntegerType || type instanceof DateType || type instanceof YearMonthIntervalType) {
            return row.getInt(column);
        }
        return type instanceof BooleanType ? (row.getBoolean(column) ? 1 : 0) : row.getLong(column);
    }

    static double real(InternalRow row, int column, DataType type) {
        if (type instanceof FloatType) {
            return row.getFloat(column);
        }
        return type instanceof DecimalType of
            ? row.getDecimal(column, of.precision(), of.scale()).toDouble() : row.getDouble(column);
    }

    /** The key of a double: -0.0 as 0.0, each NaN above infinity. */
    static long real(double value) {
        long bits = Double.doubleToLongBits(value + 0.0);
        return bits ^ ((bits >> 63) & Long.MAX_VALUE);
    }

    /** The sum of a key and an amount, held at the ends of the type. */
    static long plus(long key, long amount) {
        long sum = key + amount;
        return ((key ^ sum) & (amount ^ sum)) < 0 ? (key < 0 ? Long.MIN_VALUE : Long.MAX_VALUE) : sum;
    }
}
