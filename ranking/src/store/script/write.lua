-- The writes of commit.lua and recover.lua: command, index into KEYS, number of arguments,
-- arguments. ZRANK writes nothing: its answers are returned, in order, - for no entry.
-- RENAME's one argument is the index of its target. STRLEN only requires that a key exists. Types
-- are checked first, as Lua does not roll back.
local TYPE_OF = { ZADD = 'zset', ZREM = 'zset', ZRANK = 'zset', RENAME = 'zset', HSET = 'hash', HDEL = 'hash', SET = 'string', STRLEN = 'string' }
local MUST_EXIST = { RENAME = true, STRLEN = true }

local function foreign_key(first)
  local i, known = first, {}
  while i <= #ARGV do
    local command, place = ARGV[i], tonumber(ARGV[i + 1])
    local wanted = TYPE_OF[command]
    if wanted and (known[place] ~= wanted or MUST_EXIST[command]) then
      local type = redis.call('TYPE', KEYS[place]).ok
      if type ~= wanted and (type ~= 'none' or MUST_EXIST[command]) then
        return KEYS[place]
      end
      known[place] = wanted
    end
    i = i + 3 + tonumber(ARGV[i + 2])
  end
  return nil
end

local function apply_writes(first)
  local i, ranks = first, {}
  while i <= #ARGV do
    local command, key, count = ARGV[i], KEYS[tonumber(ARGV[i + 1])], tonumber(ARGV[i + 2])
    if command == 'RENAME' then
      local later = KEYS[tonumber(ARGV[i + 3])]
      redis.call('RENAME', key, later)
      redis.call('PERSIST', later)
    elseif command == 'ZRANK' then
      ranks[#ranks + 1] = redis.call('ZRANK', key, ARGV[i + 3]) or '-'
    else
      redis.call(command, key, unpack(ARGV, i + 3, i + 2 + count))
    end
    i = i + 3 + count
  end
  return ranks
end

