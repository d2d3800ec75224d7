-- Notes. A scope is a channel, or `all`. What is kept of one, all of it below `<root>:notes:<scope>:`
--   note:<id>     a note: its fields, as `Note` has them, and what the scripts go by
--   code:<code>   the id of the note that people call so
--   file:<place>  ids of a file's notes, in the order in which they came to count (<place> is <skill>:<file>)
--   files:<skill> its files with notes, and what their names look like
--   sizes         bytes of the notes of each place, or more: those that ended since still count
--   ending        places with notes that have an end: elsewhere sizes are exact
--   waiting, kept ids of the notes that wait for an approver, and of those that count, by time
-- Limits are JSON: characters, file_bytes, waiting, files, notes, overwrites, remember_ms.
local order = text(time[1] * 1000000 + time[2]) -- several can come in one millisecond

local function scope_of(name)
  return P .. 'notes:' .. name .. ':'
end

local function field(N, id, name)
  return redis.call('HGET', N .. 'note:' .. id, name) or ''
end

local function note(N, id)
  return redis.call('HGETALL', N .. 'note:' .. id)
end

-- The answer about a note, and others after it.
local function with_notes(N, verdict, id, others)
  local answer = {verdict, note(N, id)}
  for _, one in ipairs(others) do
    answer[#answer + 1] = note(N, one)
  end
  return answer
end

local function place(N, id)
  return field(N, id, 'skill_key') .. ':' .. field(N, id, 'file_key')
end

local function described(N, id)
  return field(N, id, 'state') .. ' ' .. field(N, id, 'code') .. ' ' .. field(N, id, 'hash')
end

local function has_ended(till)
  return till ~= '' and whole(till, 0) <= now
end

-- Before anything of a file's notes is written: all that is written to is what it should be.
local function must_be_notes(N, skill, file)
  must_be('stream', P .. 'audit')
  must_be('hash', N .. 'sizes', N .. 'files:' .. skill)
  must_be('set', N .. 'ending')
  must_be('zset', N .. 'waiting', N .. 'kept')
  must_be('list', N .. 'file:' .. skill .. ':' .. file)
end

local function must_be_notes_of(N, id)
  must_be_notes(N, field(N, id, 'skill_key'), field(N, id, 'file_key'))
end

-- The notes of a file that are read: from the last one that overwrites on, without those that have ended. One that has
-- ended keeps its place: its end brings nothing back.
local function standing(N, at)
  local listed = redis.call('LRANGE', N .. 'file:' .. at, 0, -1)
  local backwards, found, bytes = {}, {}, 0
  for i = #listed, 1, -1 do
    local h = redis.call('HMGET', N .. 'note:' .. listed[i], 'until', 'bytes', 'overwrite')
    if not has_ended(h[1]) then
      backwards[#backwards + 1] = listed[i]
      bytes = bytes + whole(h[2], 0)
    end
    if h[3] == '1' then
      break
    end
  end
  for i = #backwards, 1, -1 do
    found[#found + 1] = backwards[i]
  end
  return found, bytes
end

-- The last of them, or nothing.
local function newest(N, at)
  for i = -1, -redis.call('LLEN', N .. 'file:' .. at), -1 do
    local id = redis.call('LINDEX', N .. 'file:' .. at, i)
    if not has_ended(field(N, id, 'until')) then
      return id
    end
    if field(N, id, 'overwrite') == '1' then
      return nil
    end
  end
  return nil
end

-- What an approver saw that a note would take the place of.
local function replaced_now(N, at)
  return redis.sha1hex(table.concat((standing(N, at)), ' '))
end

-- Nothing of its text is left. What became of it is remembered for a while.
local function forget(N, id, state, L)
  redis.call('LREM', N .. 'file:' .. place(N, id), 1, id)
  redis.call('ZREM', N .. 'waiting', id)
  redis.call('ZREM', N .. 'kept', id)
  redis.call('HSET', N .. 'note:' .. id, 'state', state, 'text', '', 'bytes', '0')
  redis.call('PEXPIRE', N .. 'note:' .. id, L.remember_ms)
  redis.call('PEXPIRE', N .. 'code:' .. field(N, id, 'code'), L.remember_ms)
end

local function forget_before(N, id, L)
  for _, older in ipairs(redis.call('LRANGE', N .. 'file:' .. place(N, id), 0, -1)) do
    if older == id then
      break
    end
    forget(N, older, 'replaced', L)
  end
end

-- It counts no longer, and what it stood in the place of does not come back.
local function close(N, id, state, L)
  if field(N, id, 'overwrite') == '1' then
    forget_before(N, id, L)
  end
  forget(N, id, state, L)
end

-- Those that have ended are forgotten, and the size is exact again.
local function tidy(N, skill, file, L)
  local at = skill .. ':' .. file
  local listed = redis.call('LRANGE', N .. 'file:' .. at, 0, -1)
  redis.call('SREM', N .. 'ending', at)
  for _, id in ipairs(listed) do
    local till = field(N, id, 'until')
    if field(N, id, 'state') == 'kept' and has_ended(till) then
      close(N, id, 'expired', L)
    elseif till ~= '' then
      redis.call('SADD', N .. 'ending', at)
    end
  end
  local _, bytes = standing(N, at)
  if redis.call('EXISTS', N .. 'file:' .. at) == 1 then
    redis.call('HSET', N .. 'sizes', at, text(bytes))
  else
    redis.call('HDEL', N .. 'sizes', at)
    redis.call('HDEL', N .. 'files:' .. skill, file)
  end
  return bytes
end

local function state_now(N, id, L)
  if has_ended(field(N, id, 'until')) then
    tidy(N, field(N, id, 'skill_key'), field(N, id, 'file_key'), L)
  end
  return field(N, id, 'state')
end

local function tidy_files(N, skill, L)
  for _, file in ipairs(redis.call('HKEYS', N .. 'files:' .. skill)) do
    if redis.call('SISMEMBER', N .. 'ending', skill .. ':' .. file) == 1 then
      tidy(N, skill, file, L)
    end
  end
end

-- Why a note can't be added to its file now, or nothing.
local function no_room(N, skill, file, looks, bytes, overwrite, L)
  local files = N .. 'files:' .. skill
  if redis.call('HEXISTS', files, file) == 0 then
    if redis.call('HLEN', files) >= L.files then
      tidy_files(N, skill, L)
    end
    if redis.call('HLEN', files) >= L.files then
      return {'FILES', L.files}
    end
    local others = redis.call('HGETALL', files)
    for i = 1, #others, 2 do
      if others[i + 1] == looks then
        return {'ALIKE', others[i]}
      end
    end
  end
  local at = skill .. ':' .. file
  local used = overwrite and 0 or whole(redis.call('HGET', N .. 'sizes', at), 0)
  local function is_over()
    return used + bytes > L.file_bytes or redis.call('LLEN', N .. 'file:' .. at) >= L.notes
  end
  if is_over() and redis.call('SISMEMBER', N .. 'ending', at) == 1 then
    local exact = tidy(N, skill, file, L)
    used = overwrite and 0 or exact
  end
  return is_over() and {'FULL', used, redis.call('LLEN', N .. 'file:' .. at)} or nil
end

-- It counts from now on.
local function join(N, id, L)
  local h = redis.call('HMGET', N .. 'note:' .. id, 'skill_key', 'file_key', 'looks', 'bytes', 'overwrite', 'until')
  local at = h[1] .. ':' .. h[2]
  if h[6] ~= '' then
    redis.call('SADD', N .. 'ending', at)
  end
  redis.call('HSET', N .. 'note:' .. id, 'state', 'kept')
  redis.call('ZREM', N .. 'waiting', id)
  redis.call('ZADD', N .. 'kept', order, id)
  redis.call('HSET', N .. 'files:' .. h[1], h[2], h[3])
  redis.call('RPUSH', N .. 'file:' .. at, id)
  if h[5] ~= '1' then
    redis.call('HSET', N .. 'sizes', at, text(whole(redis.call('HGET', N .. 'sizes', at), 0) + whole(h[4], 0)))
    return
  end
  redis.call('HSET', N .. 'sizes', at, h[4])
  local listed, overwrites = redis.call('LRANGE', N .. 'file:' .. at, 0, -1), 0
  for i = #listed, 1, -1 do
    overwrites = overwrites + (field(N, listed[i], 'overwrite') == '1' and 1 or 0)
    if overwrites == L.overwrites then
      forget_before(N, listed[i], L) -- too long ago to be undone
      break
    end
  end
end

-- The first code that no note of the scope has.
local function free_code(N, codes)
  for _, code in ipairs(codes) do
    if redis.call('EXISTS', N .. 'code:' .. code) == 0 then
      return code
    end
  end
  error('no code is free')
end
