-- Quoted, mixed-case and non-ASCII names, USING, and columns named twice in the output.
CREATE STREAM `Größe` (Id BIGINT, `1-_./Ü` INT, Wert INT) USING rate;
CREATE STREAM Mass (ID BIGINT, `1-_./Ü` INT, wert INT) USING rate;
CREATE STREAM Zahl (id BIGINT, `1-_./Ü` INT, WERT INT) USING rate;
SELECT *
FROM `größe` AS g JOIN `MASS` AS m USING (id) JOIN zahl AS z ON z.`1-_./ü` > m.`1-_./Ü` AND G.WERT < Z.wert
