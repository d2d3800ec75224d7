-- Shared by all scripts about skills. KEYS[1] is the root of everything that is stored about them.
-- Only the server's clock is used.
local P = KEYS[1] .. ':'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
  return string.format('%.0f', number)
end

-- False: this very change was made before, and its answer was lost on the way.
local function first_time(id)
  return redis.call('SET', P .. 'made:' .. id, '1', 'NX', 'EX', '86400') and true or false
end

local function made_before(id)
  return redis.call('EXISTS', P .. 'made:' .. id) == 1
end

-- One line of the audit log, in the script that makes the change. `said` is JSON of who, channel, what, thing and rule.
local function audit(said, before, after)
  redis.call('XADD', P .. 'audit', '*', 'said', said, 'before', before or '', 'after', after or '')
end

-- Bundles are kept as long as a snapshot or a channel names them, and a day longer, for turns that still work with them.
local function hold(...)
  local bundles, fields = { ... }, {}
  for i, count in ipairs(redis.call('HMGET', P .. 'refs', ...)) do
    local bundle = bundles[i]
    fields[2 * i - 1] = bundle
    fields[2 * i] = tonumber(count or 0) + 1
    if not count then
      redis.call('PERSIST', P .. 'bundle:' .. bundle)
    end
  end
  redis.call('HSET', P .. 'refs', unpack(fields))
end

local function release(bundle)
  if redis.call('HINCRBY', P .. 'refs', bundle, -1) <= 0 then
    redis.call('HDEL', P .. 'refs', bundle)
    redis.call('EXPIRE', P .. 'bundle:' .. bundle, '86400')
  end
end
