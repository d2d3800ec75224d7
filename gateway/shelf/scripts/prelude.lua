-- Shared by all scripts about skills. KEYS[1] is the root of everything that is stored about them.
-- Only the server's clock is used.
-- A script that fails halfway is not undone. So each that writes first reads and reckons all it needs, sees that the keys
-- it writes to are of their kind, and writes last: the audit line first of all, that the change was made at the end.
local P = KEYS[1] .. ':'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
  return string.format('%.0f', number)
end

-- A number as Redis holds it; what is none, or too large to be exact, counts as another.
local function whole(stored, otherwise)
  local found = tonumber(stored or '')
  if found and found == math.floor(found) and math.abs(found) < 9007199254740992 then
    return found
  end
  return otherwise
end

-- Each key has to be of this kind, or not there.
local function must_be(kind, ...)
  for _, key in ipairs({ ... }) do
    local found = redis.call('TYPE', key).ok
    if found ~= kind and found ~= 'none' then
      error(key .. ' is a ' .. found .. ', not a ' .. kind)
    end
  end
end

-- What this very change did, if it was made before and its answer was lost on the way.
local function made_before(id)
  return redis.call('GET', P .. 'made:' .. id)
end

local function made(id, what)
  redis.call('SET', P .. 'made:' .. id, what, 'EX', '86400')
end

-- One line of a stream of the log, of at most about so many lines if there is a `most`.
local function keep(stream, said, before, after, most)
  local line = { '*', 'said', said, 'before', before or '', 'after', after or '' }
  if most then
    redis.call('XADD', P .. stream, 'MAXLEN', '~', most, unpack(line))
  else
    redis.call('XADD', P .. stream, unpack(line))
  end
end

-- One line of the audit log, in the script that makes the change. `said` is JSON of who, channel, what, thing and rule.
local function audit(said, before, after)
  keep('audit', said, before, after)
end

-- Bundles are kept as long as a snapshot or a channel names them, and a day longer, for turns that still work with them.
local function hold(...)
  local bundles, fields = { ... }, {}
  for i, count in ipairs(redis.call('HMGET', P .. 'refs', ...)) do
    local bundle, known = bundles[i], whole(count, not count and 0 or nil)
    fields[2 * i - 1] = bundle
    fields[2 * i] = known and text(known + 1) or count
    if not count then
      redis.call('PERSIST', P .. 'bundle:' .. bundle)
    end
  end
  redis.call('HSET', P .. 'refs', unpack(fields))
end

-- Where nobody knows how many name it, it stays: it may be the only copy.
local function release(bundle)
  local count = whole(redis.call('HGET', P .. 'refs', bundle), nil)
  if count and count > 1 then
    redis.call('HSET', P .. 'refs', bundle, text(count - 1))
  elseif count then
    redis.call('HDEL', P .. 'refs', bundle)
    redis.call('EXPIRE', P .. 'bundle:' .. bundle, '86400')
  end
end
