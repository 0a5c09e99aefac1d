-- Records which members joined a board, unless the partition is to be recovered.
-- KEYS  head, entrants
-- ARGV  deployment, then members, each with the number of its joining, then the run id of this server (see run.lua)
-- returns DONE, RESTARTED (the head is not of this server's run or of the deployment) or TYPE <key>
-- A later joining has a higher number. A member who left has the number of that joining, below 0.
local this_run_id = this_run()
local head = redis.call('GET', KEYS[1])
local deployment, run_id = string.match(head or '', '(%S+) (%S+)$')
if deployment ~= ARGV[1] or run_id ~= this_run_id then
  return 'RESTARTED'
end
local type = redis.call('TYPE', KEYS[2]).ok
if type ~= 'hash' and type ~= 'none' then
  return 'TYPE ' .. KEYS[2]
end
for i = 2, #ARGV, 2 do
  local known = tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or 0) or 0
  if math.abs(known) < tonumber(ARGV[i + 1]) then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
end
return 'DONE'
