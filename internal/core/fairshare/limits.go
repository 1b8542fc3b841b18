package fairshare

// Level is the limit of one queue, and the usage that counts against it.
type Level struct{ Limit, Used Amounts }

// Over describes how a request exceeds a limit: the queue's level, the resource, and the usage
// before the request.
type Over struct {
	Level, Resource int
	Used            int64
}

// Room returns how many requests, counted from the first, fit in the limits of all levels. It also
// returns the limit that blocks the next request; nil if all fit.
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
