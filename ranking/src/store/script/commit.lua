-- A fast-forward of one partition: writes everything below, or nothing.
-- KEYS  head, log, sizes, then the keys of the writes
-- ARGV  expected head, new head, log entry id, log entry, then writes (see write.lua), the run id of this server (see run.lua)
-- returns DONE, and behind it the ranks that the writes read; STALE (another head), RESTARTED (the head is not of this server's run, or the log
-- does not take the entry) or TYPE <key>
local run_id = this_run()
local head = redis.call('GET', KEYS[1])
if not head or string.match(head, '%S+$') ~= run_id then
  return 'RESTARTED'
end
if head ~= ARGV[1] then
  return 'STALE'
end
local foreign = foreign_key(5)
if foreign then
  return 'TYPE ' .. foreign
end
local added = redis.pcall('XADD', KEYS[2], ARGV[3], 'c', ARGV[4])
if type(added) == 'table' then
  if not string.find(added.err, '^ERR') and not string.find(added.err, '^WRONGTYPE') then
    return added
  end
  -- Another program has written to the log, or moved its last id on. A head of no run makes
  -- recovery begin a new log.
  redis.call('SET', KEYS[1], (string.gsub(head, '%S+$', '-')))
  return 'RESTARTED'
end
-- After the first write, which Redis refuses if it is out of memory.
local last = redis.pcall('LINDEX', KEYS[3], -1)
if type(last) == 'table' then
  -- Another program's key, of another type.
  redis.call('UNLINK', KEYS[3])
  last = nil
end
redis.call('RPUSH', KEYS[3], (tonumber(last or 0) or 0) + #ARGV[4])
local ranks = apply_writes(5)
redis.call('SET', KEYS[1], ARGV[2])
return #ranks == 0 and 'DONE' or 'DONE ' .. table.concat(ranks, ' ')
