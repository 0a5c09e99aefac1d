-- The state of a partition at this moment, for a fold.
-- KEYS  head, log, sizes, then the keys to read
-- ARGV  for each key after the sizes: HMGET or ZMSCORE, a count, that many fields or members
--       0 instead of a count and fields: those of the key before
-- returns head, length of the log, time in ms, bytes of the log without its oldest commit,
-- then for each further key an array, nil if the key does not exist or has none of them, or the
-- name of its type if that is another one
local TYPE_OF = { HMGET = 'hash', ZMSCORE = 'zset' }

-- The most fields of one command: Lua's unpack fails at about 8,000.
local FIELDS_MAX = 4000

local function look_up(command, key, first, last)
  -- One value costs as little as its key's type.
  if first == last then
    local found = redis.pcall(command, key, ARGV[first])
    if not found.err then
      return found[1] and found
    end
  end
  -- Most reads are of missing keys: a thousand nils cost as much as a thousand values.
  local type = redis.call('TYPE', key).ok
  if type == 'none' then
    return false
  end
  if type ~= TYPE_OF[command] then
    return type
  end
  local all, found = {}, false
  for at = first, last, FIELDS_MAX do
    local last_at = math.min(at + FIELDS_MAX - 1, last)
    for _, value in ipairs(redis.call(command, key, unpack(ARGV, at, last_at))) do
      all[#all + 1] = value
      found = found or value
    end
  end
  return found and all
end

local answer = { redis.call('GET', KEYS[1]) }
local log_length = redis.pcall('XLEN', KEYS[2])
if type(log_length) == 'table' then
  -- The log has another type: without a head the partition is recovered.
  return { false }
end
answer[2] = log_length
local time = redis.call('TIME')
answer[3] = time[1] * 1000 + math.floor(time[2] / 1000)
local function size_at(place)
  local size = redis.pcall('LINDEX', KEYS[3], place)
  return type(size) == 'string' and tonumber(size) or 0
end
answer[4] = size_at(-1) - size_at(0)
local i, first, last = 1, 1, 0
for k = 4, #KEYS do
  local count = tonumber(ARGV[i + 1])
  if count > 0 then
    first, last = i + 2, i + 1 + count
  end
  answer[k + 1] = look_up(ARGV[i], KEYS[k], first, last)
  i = i + 2 + count
end
return answer
