-- A shop's tables, filled without randomness: joins, indexes, window functions, deletions, vacuum.
PRAGMA journal_mode = MEMORY;
PRAGMA cache_size = -16000;
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city INTEGER NOT NULL);
CREATE TABLE city(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE item(id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, price INTEGER NOT NULL, note TEXT);

BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO city SELECT i, 'city ' || hex(i * 7919) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customer SELECT i, printf('name %08d', (i * 48271) % 2147483647), (i * 31) % 500 + 1 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO item
SELECT i, (i * 16807) % 20000 + 1, (i * 48271) % 10007, substr(hex(i * i * 65537), 1, i % 24) FROM n;
COMMIT;

CREATE INDEX item_customer ON item(customer, price);
CREATE INDEX customer_name ON customer(name COLLATE NOCASE);
CREATE INDEX item_note ON item(note) WHERE note <> '';
ANALYZE;

SELECT city.name, count(*), sum(price), max(note)
FROM item JOIN customer ON customer.id = item.customer JOIN city ON city.id = customer.city
GROUP BY city.id ORDER BY sum(price) DESC, city.id LIMIT 20;

SELECT count(*), sum(a.price - b.price)
FROM item a JOIN item b ON b.customer = a.customer AND b.price > a.price
WHERE a.id % 5 = 0;

SELECT id, customer, price, running FROM (
  SELECT id, customer, price,
         sum(price) OVER (PARTITION BY customer ORDER BY price, id) AS running,
         rank() OVER (ORDER BY price DESC, id) AS place
  FROM item WHERE customer < 4000)
WHERE place % 997 = 0 ORDER BY place;

SELECT length(group_concat(note, ',')), max(length(note)) FROM (SELECT note FROM item ORDER BY note, id);
SELECT json_group_array(name) FROM (SELECT name FROM customer ORDER BY name COLLATE NOCASE DESC LIMIT 50);

DELETE FROM item WHERE id % 3 = 0;
UPDATE item SET note = note || '-' || upper(note) WHERE id % 7 = 0;
CREATE TABLE wide AS SELECT a.*, c.name AS customer_name FROM item a JOIN customer c ON c.id = a.customer;
DROP INDEX item_note;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), sum(price), sum(length(note)), sum(length(customer_name)) FROM wide;
