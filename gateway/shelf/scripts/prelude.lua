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

-- SHA-256, in hex: Redis itself has none that is fit for a chain.
local function sha256(message)
  local K = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
  }
  local bxor, band, bnot, ror, rshift, tobit = bit.bxor, bit.band, bit.bnot, bit.ror, bit.rshift, bit.tobit
  local h, bits = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 }, #message * 8
  local length = string.char(0, 0, 0, 0, math.floor(bits / 16777216) % 256, math.floor(bits / 65536) % 256,
    math.floor(bits / 256) % 256, bits % 256)
  message = message .. '\128' .. string.rep('\0', (55 - #message) % 64) .. length
  for at = 1, #message, 64 do
    local w = {}
    for i = 0, 15 do
      local one, two, three, four = string.byte(message, at + 4 * i, at + 4 * i + 3)
      w[i] = tobit(one * 16777216 + two * 65536 + three * 256 + four)
    end
    for i = 16, 63 do
      local x, y = w[i - 15], w[i - 2]
      local s, t = bxor(ror(x, 7), ror(x, 18), rshift(x, 3)), bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
      w[i] = tobit(w[i - 16] + s + w[i - 7] + t)
    end
    local a, b, c, d, e, f, g, last = unpack(h)
    for i = 0, 63 do
      local t = last + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(band(e, f), band(bnot(e), g)) + K[i + 1] + w[i]
      local s = bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(band(a, b), band(a, c), band(b, c))
      last, g, f, e, d, c, b, a = g, f, e, tobit(d + t), c, b, a, tobit(t + s)
    end
    for i, add in ipairs({ a, b, c, d, e, f, g, last }) do
      h[i] = tobit(h[i] + add)
    end
  end
  local hex = {}
  for i = 1, 8 do
    hex[i] = bit.tohex(h[i])
  end
  return table.concat(hex)
end

-- Number and hash of a stream's last line. Without its head, what the last line says itself: a head that is taken away begins
-- no chain anew.
local function head_of(stream)
  local n, hash = string.match(redis.call('GET', P .. stream .. ':head') or '', '^(%d+) (%x+)$')
  if not n then
    local held = {}
    for _, line in ipairs(redis.call('XREVRANGE', P .. stream, '+', '-', 'COUNT', '1')) do
      for i = 1, #line[2], 2 do
        held[line[2][i]] = line[2][i + 1]
      end
    end
    n, hash = held.n, held.hash
  end
  return whole(n, 0), hash or string.rep('0', 64)
end

-- One line of a stream of the log, of at most about so many lines if there is a `most`. Each holds the hash of the one before,
-- and its own is over all that it holds (see `gateway.audit.chain`).
local function keep(stream, said, before, after, most)
  must_be('stream', P .. stream)
  must_be('string', P .. stream .. ':head')
  local n, prev = head_of(stream)
  local number, at, old, new = text(n + 1), text(now), before or '', after or ''
  local sized = {}
  for i, part in ipairs({ prev, number, at, said, old, new }) do
    sized[i] = #part .. ':' .. part
  end
  local hash = sha256(table.concat(sized))
  local function add(id)
    local line = { id, 'said', said, 'before', old, 'after', new, 'n', number, 'at', at, 'prev', prev, 'hash', hash }
    if most then
      return redis.pcall('XADD', P .. stream, 'MAXLEN', '~', most, unpack(line))
    end
    return redis.pcall('XADD', P .. stream, unpack(line))
  end
  -- Lines of several streams that were written in one millisecond are in order by its microseconds; only where the clock was
  -- put back, or in the same microsecond, Redis numbers them as it likes.
  local added = add(at .. '-' .. text(time[2] % 1000))
  if added.err then
    added = add('*')
  end
  if added.err then
    error(added.err)
  end
  redis.call('SET', P .. stream .. ':head', number .. ' ' .. hash)
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
