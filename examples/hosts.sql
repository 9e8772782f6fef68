-- This machine's own metrics, as `tolerant agent` offers them.
CREATE STREAM hosts (host STRING, metric STRING, value DOUBLE) KEY (host, metric);
CREATE QUERY busiest AS SELECT MAX(value) FROM hosts WHERE metric = 'cpu' WITHIN 5;
CREATE QUERY packets AS SELECT SUM(value) FROM hosts WHERE metric IN ('packets_in', 'packets_out') WITHIN 50;
