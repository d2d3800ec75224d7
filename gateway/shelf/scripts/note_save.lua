-- save(scope, id, limits, said, state, skill key, file key, looks, overwrite, text, n codes, code...,
--      hash, its value, (name, value)...)
-- -> OK note replaced... | CHARACTERS n | WAITING n | FILES n | ALIKE file | FULL bytes notes
local N, id, L, state = scope_of(ARGV[1]), ARGV[2], cjson.decode(ARGV[3]), ARGV[5]
local skill, file, looks, overwrite, content = ARGV[6], ARGV[7], ARGV[8], ARGV[9] == '1', ARGV[10]
local at = skill .. ':' .. file

local replaced = overwrite and standing(N, at) or {}
if redis.call('EXISTS', N .. 'note:' .. id) == 1 then
  return with_notes(N, 'OK', id, replaced) -- this very call is in already
end

must_be_notes(N, skill, file)
local _, characters = string.gsub(content, '[^\128-\191]', '')
if characters > L.characters then
  return {'CHARACTERS', characters}
end
local why = no_room(N, skill, file, looks, #content, overwrite, L)
if why then
  return why
end
local waiting = redis.call('ZCARD', N .. 'waiting')
if state == 'pending' and waiting >= L.waiting then
  return {'WAITING', waiting}
end

local codes = {}
for i = 12, 11 + ARGV[11] do
  codes[#codes + 1] = ARGV[i]
end
local code = free_code(N, codes)
audit(ARGV[4], #replaced > 0 and 'replaces ' .. #replaced or '', state .. ' ' .. code .. ' ' .. ARGV[13 + ARGV[11]])
redis.call('HSET', N .. 'note:' .. id, 'id', id, 'code', code, 'state', state, 'at', text(now), 'until', '',
  'skill_key', skill, 'file_key', file, 'looks', looks, 'overwrite', ARGV[9], 'text', content,
  'bytes', text(#content), unpack(ARGV, 12 + ARGV[11]))
redis.call('SET', N .. 'code:' .. code, id)
if state == 'pending' then
  redis.call('ZADD', N .. 'waiting', order, id)
  if overwrite then
    redis.call('HSET', N .. 'note:' .. id, 'seen', replaced_now(N, at))
  end
else
  join(N, id, L)
end
return with_notes(N, 'OK', id, replaced)
