-- A star: three streams joined to a centre by inequalities.
CREATE STREAM hub (lo INT, hi INT, w INT) USING rate;
CREATE STREAM x (v INT) USING rate;
CREATE STREAM y (v INT) USING rate;
CREATE STREAM z (v INT) USING rate;
SELECT hub.w, x.v, y.v AS yv, z.v AS zv
FROM hub JOIN x ON x.v >= hub.lo JOIN y ON y.v <= hub.hi JOIN z ON z.v <> hub.w
