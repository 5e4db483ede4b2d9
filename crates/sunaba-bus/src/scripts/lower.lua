-- Takes the published position back, if it is still the one that was seen.
-- KEYS: the last published position. ARGV: what it is, what it shall be.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[2])
end
return 0
