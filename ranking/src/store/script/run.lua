-- The run id of this server: the last argument. Where a proxy may lead a connection to another run,
-- the caller sends ? instead, and the script asks the server.
local function this_run()
  local told = table.remove(ARGV)
  if told ~= '?' then
    return told
  end
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
end

