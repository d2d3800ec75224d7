-- Shared by all scripts of the mailbox. KEYS[1] is the partition's root, ARGV[1] the settings as JSON.
-- Only the server's clock is used. Numbers that become text go through %.0f: Lua's own conversion keeps 14 digits.
local P = KEYS[1] .. ':'
local S = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)

local function text(number)
  return string.format('%.0f', number)
end

local function key(c, what)
  return P .. 'c:' .. c .. (what and ':' .. what or '')
end

-- A server at its limit stops a script at its first write of something new, and no script that has written before. So
-- `accept`, which begins with such a write, is refused, and what was accepted goes on to its answer.
local function go_on_when_full()
  redis.call('PERSIST', P .. 'meta')
end

local function cold()
  return redis.call('HGET', P .. 'meta', 'epoch') ~= S.epoch
end

-- Whether a message came before: one of its names, ARGV[from] and on, is there.
local function known(c, from)
  for i = from, #ARGV do
    local when = redis.call('ZSCORE', key(c, 'seen'), ARGV[i])
    if when and tonumber(when) > now - S.dedupe_ms then
      return true
    end
  end
  return false
end

local function under_cap(ch)
  return S.cap == 0 or tonumber(redis.call('HGET', P .. 'running', ch) or 0) < S.cap
end

-- A conversation that has work is in exactly one of `ready` and `due`: put, free and grant keep this.
local function put(c, ch)
  if redis.call('ZADD', P .. 'ready:' .. ch, 'NX', text(now), c) == 1 then
    redis.call('INCR', P .. 'waiting')
  end
  redis.call('ZREM', P .. 'due', c)
  if under_cap(ch) then
    redis.call('ZADD', P .. 'channels', 'NX', text(us), ch)
  end
end

-- What comes into a conversation: is there room for so much, what number has it, where does it wait, who is to know?
local function full(c, more)
  return redis.call('ZCARD', key(c, 'inbox')) + more > S.inbox_max
    or tonumber(redis.call('GET', P .. 'waiting') or 0) >= S.waiting_max
end

local function arrive(c)
  if redis.call('HDEL', key(c), 'idle') == 1 then
    redis.call('PERSIST', key(c))
    redis.call('PERSIST', key(c, 'history'))
  end
  return redis.call('HINCRBY', key(c), 'seq', 1)
end

local function enqueue(c, seq, at, event)
  local at_most = math.min(math.max(at, now - 5000), now)
  local last = tonumber(redis.call('ZRANGE', key(c, 'inbox'), -1, -1, 'WITHSCORES')[2] or 0)
  if last > now then
    at_most = last -- the server's clock was put back: it comes behind what waits, all the same
  end
  redis.call('ZADD', key(c, 'inbox'), text(at_most), string.format('%012.0f:', seq) .. event)
end

-- True: nobody holds it, and the bell is due.
local function call_for(c, ch, delay)
  local worker = redis.call('HGET', key(c), 'worker')
  if worker then
    redis.call('PUBLISH', P .. 'nudge:' .. worker, c)
    return false
  end
  if delay > 0 and not redis.call('ZSCORE', P .. 'ready:' .. ch, c) then
    local there = tonumber(redis.call('ZSCORE', P .. 'due', c))
    redis.call('ZADD', P .. 'due', text(math.min(there or now + delay, now + delay)), c)
  else
    put(c, ch)
  end
  return true
end

local function ring_due()
  return redis.call('SET', P .. 'bell', '1', 'NX', 'PX', S.bell_ms) and 1 or 0
end

local function free(c, ch)
  redis.call('HDEL', key(c), 'token', 'worker', 'waits', 'spared')
  if string.match(redis.call('GET', P .. 'sole') or '', '^%S+') == c then
    redis.call('DEL', P .. 'sole')
  end
  if redis.call('HINCRBY', P .. 'running', ch, -1) <= 0 then
    redis.call('HDEL', P .. 'running', ch)
  end
  redis.call('ZREM', P .. 'due', c)
  if redis.call('EXISTS', P .. 'ready:' .. ch) == 1 and under_cap(ch) then
    redis.call('ZADD', P .. 'channels', 'NX', text(us), ch)
  end
end

local function is_unsent(state)
  local word = string.match(state, '^%S+')
  return word ~= 'sent' and word ~= 'given_up'
end

local function unsent(c)
  for _, state in ipairs(redis.call('HVALS', key(c, 'states'))) do
    if is_unsent(state) then
      return true
    end
  end
  return false
end

local function has_work(c)
  return redis.call('EXISTS', key(c, 'inbox')) == 1
    or redis.call('EXISTS', key(c, 'control')) == 1
    or redis.call('HEXISTS', key(c), 'turn') == 1
    or unsent(c)
end

local function channel_of(c)
  return redis.call('HGET', key(c), 'channel')
end

-- Every write names its token, the revision it builds on and its own id.
local function guard(c, token, rev, wid)
  go_on_when_full()
  local h = redis.call('HMGET', key(c), 'token', 'rev', 'last')
  local at = tonumber(h[2] or 0)
  if h[1] ~= token then
    return 'FENCED' -- another worker holds it, or nobody
  end
  if at == rev + 1 and h[3] == wid then
    return 'DONE' -- this very write is in already; its answer was lost on the way
  end
  if at ~= rev then
    return 'BEHIND' -- Redis has lost its tail; the worker's memory is ahead of it
  end
  return 'OK'
end

-- The last thing that a write does: what failed midway has not been done, and is not told DONE when it comes again.
local function advance(c, rev, wid)
  redis.call('HSET', key(c), 'rev', text(rev + 1), 'last', wid)
end

-- The server's clock was put back, as where another machine took over: what waits for a time comes so much sooner (who is
-- early waits on), who waited longest still comes first, and a lease ends one lease from now at the latest. The bell rings anew.
local function after_a_step_back(by)
  local due = redis.call('ZRANGE', P .. 'due', 0, -1, 'WITHSCORES')
  for i = 1, #due, 2 do
    local is_held = redis.call('HEXISTS', key(due[i]), 'token') == 1
    local at = is_held and math.min(tonumber(due[i + 1]), now + S.lease_ms) or tonumber(due[i + 1]) - by
    redis.call('ZADD', P .. 'due', text(at), due[i])
  end
  local function sooner(waiting, than, by_so_much)
    local late = redis.call('ZRANGEBYSCORE', waiting, '(' .. text(than), '+inf', 'WITHSCORES')
    for i = 1, #late, 2 do
      redis.call('ZADD', waiting, text(tonumber(late[i + 1]) - by_so_much), late[i])
    end
  end
  sooner(P .. 'channels', us, by * 1000)
  for _, names in ipairs({ redis.call('ZRANGE', P .. 'channels', 0, -1), redis.call('HKEYS', P .. 'running') }) do
    for _, ch in ipairs(names) do
      sooner(P .. 'ready:' .. ch, now, by)
    end
  end
  redis.call('DEL', P .. 'bell')
end

-- Nobody has asked for a while: the server slept, or the way to it was cut, and no lease was renewed. Holders that live
-- renew or give back what they hold in a moment; they get that moment, and nobody counts them as dead. But once: whose lease
-- ends as it was lengthened here has not renewed it since, and where all ask so seldom a dead one's would never end.
local function after_a_sleep()
  local before = tonumber(redis.call('GETSET', P .. 'pulse', text(now)) or now)
  if before > now then
    after_a_step_back(before - now)
  end
  if now - before <= S.lease_ms / 2 then
    return
  end
  local at_least = text(now + S.lease_ms / 2)
  local ends = redis.call('ZRANGEBYSCORE', P .. 'due', '-inf', '(' .. at_least, 'WITHSCORES')
  for i = 1, #ends, 2 do
    local c, h = ends[i], redis.call('HMGET', key(ends[i]), 'token', 'spared')
    if h[1] and tonumber(h[2] or -1) ~= tonumber(ends[i + 1]) then
      redis.call('ZADD', P .. 'due', at_least, c)
      redis.call('HSET', key(c), 'spared', at_least)
    end
  end
end

-- Whoever claims also sweeps: leases that ran out and waits that are over go back to ready, empty inbox or not.
local function sweep()
  after_a_sleep()
  for _, c in ipairs(redis.call('ZRANGEBYSCORE', P .. 'due', '-inf', text(now), 'LIMIT', 0, 64)) do
    local ch = channel_of(c)
    if not ch then
      redis.call('ZREM', P .. 'due', c)
    else
      local h = redis.call('HMGET', key(c), 'token', 'waits')
      if h[1] then
        free(c, ch)
        if not h[2] then -- of what has not begun nobody died
          redis.call('HINCRBY', key(c), 'tries', 1)
        end
      end
      put(c, ch)
    end
  end
end

local function grant(worker, places)
  sweep()
  local grants = {}
  while #grants < places do
    local ch = redis.call('ZRANGE', P .. 'channels', 0, 0)[1]
    if not ch then
      break
    end
    local c = under_cap(ch) and redis.call('ZPOPMIN', P .. 'ready:' .. ch)[1]
    if not c then
      redis.call('ZREM', P .. 'channels', ch)
    else
      redis.call('DECR', P .. 'waiting')
      -- The fence follows the clock, so that a number is never given twice, even after Redis lost its tail.
      local fence = math.max(tonumber(redis.call('GET', P .. 'fence') or 0) + 1, us)
      redis.call('SET', P .. 'fence', text(fence))
      local token = text(fence) .. '-' .. worker
      redis.call('HSET', key(c), 'token', token, 'worker', worker)
      redis.call('HINCRBY', P .. 'running', ch, 1)
      redis.call('ZADD', P .. 'due', text(now + S.lease_ms), c)
      local h = redis.call('HMGET', key(c), 'rev', 'tries', 'begin')
      if tonumber(h[2] or 0) >= S.sole_after then
        redis.call('HSET', key(c), 'waits', '1') -- until `sole` says that it begins
      end
      grants[#grants + 1] = { c, token, tonumber(h[1] or 0), tonumber(h[2] or 0), tonumber(h[3] or 0) }
      if redis.call('EXISTS', P .. 'ready:' .. ch) == 0 or not under_cap(ch) then
        redis.call('ZREM', P .. 'channels', ch)
      else
        redis.call('ZADD', P .. 'channels', text(us + #grants), ch) -- to the back
      end
    end
  end
  local ring = 0
  if redis.call('EXISTS', P .. 'channels') == 1 then
    ring = ring_due()
  end
  local first = redis.call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
  local wait = first[2] and math.max(0, tonumber(first[2]) - now) or -1
  return { 'OK', grants, ring, wait, now }
end

-- What somebody did, as it waited, becomes a record.
local function note(c, kind, turn_id, event)
  redis.call('RPUSH', key(c, 'history'),
    '{"v":1,"type":"' .. kind .. '","at":' .. text(now) .. ',"turn":' .. cjson.encode(turn_id) .. ',"event":' .. event .. '}')
end

-- Records, rows and their states for one write: `count` items at ARGV[from].
local function push(c, from, count)
  for i = from, from + count - 1 do
    redis.call('RPUSH', key(c, 'history'), ARGV[i])
  end
  return from + count
end

-- A row without a body is there, and gets another state alone.
local function set_rows(c, from, count)
  for i = 0, count - 1 do
    local at = from + 3 * i
    if ARGV[at + 1] ~= '' then
      redis.call('HSET', key(c, 'outbox'), ARGV[at], ARGV[at + 1])
    end
    redis.call('HSET', key(c, 'states'), ARGV[at], ARGV[at + 2])
  end
  return from + 3 * count
end

-- `''` leaves the open turn as it is, `-` closes it.
local function set_turn(c, turn)
  if turn == '-' then
    redis.call('HDEL', key(c), 'turn')
  elseif turn ~= '' then
    redis.call('HSET', key(c), 'turn', turn)
  end
end

-- All entries of the turn that this one is of: people know them as one letter. None: it is gone.
local function letters_of(letter)
  local function turn_of(entry)
    local at = {}
    for i = 1, #entry[2], 2 do
      at[entry[2][i]] = entry[2][i + 1]
    end
    return (at.conversation or '') .. ' ' .. (at.turn or '')
  end
  local found = redis.call('XRANGE', P .. 'dead', letter, letter)[1]
  local all = {}
  for _, entry in ipairs(found and redis.call('XRANGE', P .. 'dead', '-', '+') or {}) do -- some thousands at most, and seldom
    if turn_of(entry) == turn_of(found) then
      all[#all + 1] = entry
    end
  end
  return all
end

-- What an act did away with, a dead letter's entries as they were: kept for a day, for whoever asks for this very act again.
local function was_done(act, letter)
  return redis.call('HGET', P .. 'done:' .. act, 'letter') == letter
end

local function do_away(act, letter, all)
  for _, entry in ipairs(all) do -- first: a full server lets it through, and with it what is kept of them
    redis.call('XDEL', P .. 'dead', entry[1])
  end
  redis.call('HSET', P .. 'done:' .. act, 'letter', letter, 'all', cjson.encode(all))
  redis.call('EXPIRE', P .. 'done:' .. act, '86400')
end

-- What a turn works with, and in the end what it used of it (`gateway.conversation.uses`): 32 days, by the day on which it
-- ends, in its channel and (without a name) in all of them.
local USES_MS, USES_FIELDS_MAX = 32 * 86400000, 5000
local function note_uses(c, told)
  if not told or told == '' then
    return
  end
  local said = cjson.decode(told)
  if said.list then
    redis.call('SET', P .. 'offer:' .. said.offered, said.list, 'PX', USES_MS)
  end
  if not said.count then
    return
  end
  if said.offered ~= '' then
    redis.call('PEXPIRE', P .. 'offer:' .. said.offered, USES_MS)
  end
  local day = P .. 'uses:' .. text(math.floor(now / 86400000)) .. ':'
  for _, uses in ipairs({ day, day .. (channel_of(c) or '?') }) do
    for _, name in ipairs(said.count) do
      if redis.call('HLEN', uses) < USES_FIELDS_MAX or redis.call('HEXISTS', uses, name) == 1 then
        redis.call('HINCRBY', uses, name, 1)
      end
    end
    redis.call('PEXPIRE', uses, USES_MS)
  end
end
