"""Names of types: Spark's, and those of other systems."""

from __future__ import annotations

from .similar import did_you_mean

#: First words of Spark's types.
TYPES = (
    *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("decimal", "dec", "numeric", "string", "char", "character", "varchar", "binary", "date", "time", "timestamp"),
    *("timestamp_ntz", "timestamp_ltz", "interval", "array", "map", "struct", "variant", "void", "geometry"),
    "geography",
)

#: Types of other systems, and what Spark calls them.
ELSEWHERE = {
    **dict.fromkeys(("datetime", "timestamptz", "instant"), "TIMESTAMP"),
    **dict.fromkeys(("text", "uuid", "varchar2", "nvarchar", "longtext", "clob"), "STRING"),
    **dict.fromkeys(("number", "money"), "DECIMAL(p, s)"),
    **dict.fromkeys(("bool", "bit"), "BOOLEAN"),
    **dict.fromkeys(("int8", "int64", "serial", "bigserial"), "BIGINT"),
    **dict.fromkeys(("int4", "int32", "mediumint"), "INT"),
    **dict.fromkeys(("int2", "int16"), "SMALLINT"),
    **dict.fromkeys(("float8", "float64"), "DOUBLE"),
    **dict.fromkeys(("float4", "float32"), "FLOAT"),
    **dict.fromkeys(("blob", "bytea", "varbinary"), "BINARY"),
    **dict.fromkeys(("json", "jsonb", "object"), "STRING, or VARIANT by parse_json(x)"),
}


def no_type(name: str) -> tuple[str, str]:
    """Return what is wrong with the name of a type that Spark does not have, and what to write."""
    meant = ELSEWHERE.get(name.lower())
    return f"there is no type {name}", f"did you mean {meant}?" if meant else did_you_mean(name, TYPES)
