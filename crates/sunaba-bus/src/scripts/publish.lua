-- Publishes what nobody has published yet; one node at a time does.
-- KEYS: the last published position, the lease.
-- ARGV: who asks, how long its lease lasts (ms), then position, channel and frame of each entry in order.
-- Gives: 1 if who asks leads, else 0; the last published position, -1 when it is not known.
local published = tonumber(redis.call('GET', KEYS[1]) or '-1')
local leader = redis.call('GET', KEYS[2])
if leader and leader ~= ARGV[1] then
    return {0, published}
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
local last = nil
for at = 3, #ARGV, 3 do
    local position = tonumber(ARGV[at])
    -- Something that was sent twice, because its first answer got lost, has been published.
    if position > published then
        redis.call('PUBLISH', ARGV[at + 1], ARGV[at + 2])
        published = position
        last = ARGV[at]
    end
end
if last then
    redis.call('SET', KEYS[1], last)
end
return {1, published}
