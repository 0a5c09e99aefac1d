-- Sets the head of a partition that has all it had, with the run id of this server's run. It runs
-- out of memory as well, as it replaces a text by one of the same length.
-- KEYS  head
-- ARGV  expected head, new head, the run id in it, the run id of this server (see run.lua)
-- returns DONE, STALE (another head) or RESTARTED (another run)
if this_run() ~= ARGV[3] then
  return 'RESTARTED'
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'STALE'
end
redis.call('SET', KEYS[1], ARGV[2])
return 'DONE'
