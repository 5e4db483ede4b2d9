-- Gives up the lease, if it is one's own. KEYS: the lease. ARGV: who asks.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
return 0
