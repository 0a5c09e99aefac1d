-- The order of one shard's entries: key, then member bytes. Prepended to other scripts.
-- Compares bytes, eight a step, as Lua's own < on strings follows the server's locale.
local function before(a, b)
  local i = 1
  while true do
    local a1, a2, a3, a4, a5, a6, a7, a8 = string.byte(a, i, i + 7)
    local b1, b2, b3, b4, b5, b6, b7, b8 = string.byte(b, i, i + 7)
    local x, y
    if a1 ~= b1 then x, y = a1, b1
    elseif a2 ~= b2 then x, y = a2, b2
    elseif a3 ~= b3 then x, y = a3, b3
    elseif a4 ~= b4 then x, y = a4, b4
    elseif a5 ~= b5 then x, y = a5, b5
    elseif a6 ~= b6 then x, y = a6, b6
    elseif a7 ~= b7 then x, y = a7, b7
    elseif a8 ~= b8 then x, y = a8, b8
    elseif not a8 then return false
    end
    if x ~= y then
      -- The end of a text sorts before every byte.
      return (x or -1) < (y or -1)
    end
    i = i + 8
  end
end

-- The index of the first entry with a key, and that of the first one behind them.
local function run_of(standings, key)
  local low = redis.call('ZCOUNT', standings, '-inf', '(' .. key)
  return low, low + redis.call('ZCOUNT', standings, key, key)
end

-- Counts the entries before a place. Bisects a run of equal keys: about log2(run) look-ups.
local function count_before(standings, key, member)
  local low, high = run_of(standings, key)
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

-- So many entries of a run are read at once.
local LEAF = 128

-- Counts the entries before places, which lie in order in ARGV[at] (key), ARGV[at + 1] (member),
-- ARGV[at + 2] (key) and so on. Equal keys are one run: it is halved for all of its places
-- together, so no part of it is read twice.
local function counts_before(standings, at)
  local counts = {}
  local function member(place)
    return ARGV[at + 2 * place - 1]
  end
  local function walk(low, high, first, last)
    while first <= last do
      if high - low <= LEAF then
        local run = {}
        if low < high then
          run = redis.call('ZRANGE', standings, low, high - 1)
        end
        local passed = 0
        for place = first, last do
          local rest = #run
          while passed < rest do
            local middle = math.floor((passed + rest) / 2)
            if before(run[middle + 1], member(place)) then
              passed = middle + 1
            else
              rest = middle
            end
          end
          counts[place] = low + passed
        end
        return
      end
      local middle = math.floor((low + high) / 2)
      local entry = redis.call('ZRANGE', standings, middle, middle)[1]
      -- The first place behind the entry.
      local behind, rest = first, last + 1
      while behind < rest do
        local place = math.floor((behind + rest) / 2)
        if before(entry, member(place)) then
          rest = place
        else
          behind = place + 1
        end
      end
      walk(low, middle, first, behind - 1)
      low, first = middle + 1, behind
    end
  end
  local first, count = 1, (#ARGV - at + 1) / 2
  while first <= count do
    local key, last = ARGV[at + 2 * first - 2], first
    while last < count and ARGV[at + 2 * last] == key do
      last = last + 1
    end
    local low, high = run_of(standings, key)
    walk(low, high, first, last)
    first = last + 1
  end
  return counts
end
