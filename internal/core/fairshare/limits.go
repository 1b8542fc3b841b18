package fairshare

// Level is what a queue may have at most, and what counts against that.
type Level struct{ Limit, Used Amounts }

// Over is where a request would exceed a limit: the level, the resource, and what is used there before it.
type Over struct {
	Level, Resource int
	Used            int64
}

// Room is for how many of some requests, the first ones, the limits of all levels have room, and where the next one finds none; nil
// where all find room.
func Room(levels []Level, requests []Amounts) (int, *Over) {
	var sum Amounts
	for n, request := range requests {
		if sum == nil {
			sum = make(Amounts, len(request))
		}
		for at := range levels {
			l := &levels[at]
			for r, want := range request {
				if used := Add(l.Used[r], sum[r]); want > 0 && Add(used, want) > l.Limit[r] {
					return n, &Over{Level: at, Resource: r, Used: used}
				}
			}
		}
		for r, want := range request {
			sum[r] = Add(sum[r], want)
		}
	}
	return len(requests), nil
}
