-- find(scope, code) -> note, or nothing
local N = scope_of(ARGV[1])
local id = redis.call('GET', N .. 'code:' .. ARGV[2])
return id and note(N, id) or {}
