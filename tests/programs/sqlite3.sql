.bail on
PRAGMA cache_size = -500;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city INTEGER);
CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, note TEXT);
WITH RECURSIVE n(i, x) AS (
    VALUES (1, 12345) UNION ALL SELECT i + 1, (x * 69069 + 12345) % 4294967296 FROM n WHERE i < 20000)
INSERT INTO customer SELECT i, printf('customer %08x', x), x / 65536 % 100 FROM n;
WITH RECURSIVE n(i, x) AS (
    VALUES (1, 54321) UNION ALL SELECT i + 1, (x * 69069 + 12345) % 4294967296 FROM n WHERE i < 240000)
INSERT INTO sale SELECT i, 1 + x / 256 % 20000, x / 65536 % 10000, printf('%.*c', 150 + x / 1024 % 100, 'x') || x FROM n;
CREATE INDEX sale_customer ON sale (customer);
CREATE INDEX sale_amount ON sale (amount, customer);
SELECT count(*), sum(amount), sum(length(note)) FROM sale;
SELECT city, count(*), sum(amount) FROM customer JOIN sale ON sale.customer = customer.id WHERE customer.id <= 300
    GROUP BY city ORDER BY city;
SELECT amount, count(DISTINCT customer) FROM sale GROUP BY amount HAVING amount % 97 = 0 ORDER BY amount;
.once '|cksum'
SELECT * FROM sale WHERE amount % 50 = 0 ORDER BY note, id;
UPDATE sale SET note = note || ' changed' WHERE id % 7 = 0;
DELETE FROM sale WHERE id % 11 = 0;
SELECT count(*), sum(length(note)), max(amount) FROM sale;
PRAGMA integrity_check;
