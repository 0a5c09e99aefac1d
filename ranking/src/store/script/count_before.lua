-- Counts the entries of one shard that come before each of some places.
-- KEYS  standings
-- ARGV  key, member, key, member, … in order
-- returns a count for each place
return counts_before(KEYS[1], 1)
