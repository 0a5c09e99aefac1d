-- A step of a partition's recovery, taken only while the caller is the one who recovers it on this server's run.
-- KEYS  recovery token, then whatever the writes name
-- ARGV  the caller's token, the run id, the token's lifetime in ms, then writes (see write.lua)
-- returns DONE, LOST (another one recovers), RESTARTED (another run) or TYPE <key>
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'LOST'
end
if string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') ~= ARGV[2] then
  return 'RESTARTED'
end
local foreign = foreign_key(4)
if foreign then
  return 'TYPE ' .. foreign
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
apply_writes(4)
return 'DONE'
