-- How many entries of one shard come before each of some places in the order of (key, member bytes).
-- KEYS  standings
-- ARGV  key, member, key, member, …
-- returns a count for each place
-- A run of equal keys is bisected: about log2(run) look-ups. Lua's own < on strings follows the server's locale, so bytes are compared here.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

local counts = {}
for i = 1, #ARGV, 2 do
  local key, member = ARGV[i], ARGV[i + 1]
  local low = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. key)
  local high = low + redis.call('ZCOUNT', KEYS[1], key, key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(redis.call('ZRANGE', KEYS[1], middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  counts[#counts + 1] = low
end
return counts
