"""What Redis runs in one piece, as Lua.

Keys of one cache, all in one hash slot, P being "{prefix:v<entry version>}":
    P:e:<key>    an entry; Redis itself forgets it when its time is up
    P:l:<key>    the claim of the process that makes it, its value the holder's token
    P:used       sorted set: key -> Unix time of the last use
    P:size       hash: key -> bytes
    P:total      sum of P:size
    P:purges     hash: tag of a voice, or "" -> number of purges
"""

from __future__ import annotations

from typing import Final

# KEYS: entry, claim. ARGV: token, milliseconds. The entry, or 1 (claimed), or 0 (claimed by another one), or 2 (no
# claims: Redis is full or read-only, which is no reason not to read).
FIND_OR_CLAIM: Final = """
local entry = redis.call('GET', KEYS[1])
if entry then return entry end
local claimed = redis.pcall('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
if not claimed then return 0 end
if claimed.err then return 2 end
return 1
"""

# KEYS: claim. ARGV: token, milliseconds. 1 while it is still the caller's.
RENEW: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

# KEYS: claim. ARGV: token.
RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

_FORGET: Final = """
local function forget(key)
    local size = tonumber(redis.call('HGET', KEYS[2], key) or '0')
    redis.call('UNLINK', ARGV[1] .. key)
    redis.call('ZREM', KEYS[1], key)
    redis.call('HDEL', KEYS[2], key)
    return redis.call('DECRBY', KEYS[3], size)
end
"""

# KEYS: used, size, total. ARGV: prefix of entries, then keys.
FORGET: Final = (
    _FORGET
    + """
for i = 2, #ARGV do forget(ARGV[i]) end
return #ARGV - 1
"""
)

# KEYS: used, size, total. ARGV: prefix of entries, key, entry, milliseconds, Unix time, bytes at most.
# The entry is written first: a Redis at its own limit refuses a script only at its first write.
STORE: Final = (
    _FORGET
    + """
redis.call('SET', ARGV[1] .. ARGV[2], ARGV[3], 'PX', ARGV[4])
local old = tonumber(redis.call('HGET', KEYS[2], ARGV[2]) or '0')
redis.call('ZADD', KEYS[1], ARGV[5], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[2], #ARGV[3])
local total = redis.call('INCRBY', KEYS[3], #ARGV[3] - old)
while total > tonumber(ARGV[6]) do
    local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
    if not oldest or oldest == ARGV[2] then break end
    total = forget(oldest)
end
return total
"""
)
