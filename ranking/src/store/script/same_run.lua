-- Refuses unless this is the run of the server that the caller knows, as a server does that lost
-- its scripts.
-- KEYS  any key, by which a proxy finds the server
-- ARGV  the run id
-- returns OK, or the error NOSCRIPT
if string.find(redis.call('INFO', 'server'), 'run_id:' .. ARGV[1], 1, true) then
  return 'OK'
end
return redis.error_reply('NOSCRIPT this is another run of the server')
