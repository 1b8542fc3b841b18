package fairshare

// Level is the limit of one queue, and the usage that counts towards this limit.
type Level struct{ Limit, Used Amounts }

// Over describes a request that exceeds a limit: the index of the Level, the index of the resource,
// and the usage before the request.
type Over struct {
	Level, Resource int
	Used            int64
}

// Room returns how many requests, from the first on, fit in the limits of all levels together. It
// also returns the limit that blocks the next request; nil if all requests fit.
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
