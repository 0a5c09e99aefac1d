-- The answer to INFO, which a proxy may keep back.
-- KEYS  any key, by which a proxy finds the server
-- ARGV  the section
-- returns the text; an empty one if this server keeps INFO back
local info = redis.pcall('INFO', ARGV[1])
return type(info) == 'string' and info or ''
