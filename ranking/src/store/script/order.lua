-- The order of one shard's entries: key, then member bytes. Prepended to other scripts.
-- Compares bytes, as Lua's own < on strings follows the server's locale.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- Counts the entries before a place. Bisects a run of equal keys: about log2(run) look-ups.
local function count_before(standings, key, member)
  local low = redis.call('ZCOUNT', standings, '-inf', '(' .. key)
  local high = low + redis.call('ZCOUNT', standings, key, key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(redis.call('ZRANGE', standings, middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

