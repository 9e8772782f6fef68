-- Packet rates of hosts, in and out, and what is asked of them. Start it: tolerant run examples/traffic.sql
CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind);
CREATE QUERY inbound AS SELECT AVG(rate) FROM traffic WHERE kind = 'in' WITHIN 5;
CREATE QUERY by_host AS SELECT host, SUM(rate) FROM traffic GROUP BY host WITHIN 10;
