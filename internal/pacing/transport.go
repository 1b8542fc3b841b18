package pacing

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// Wrap has the calls of a transport wait until they may be made. It is for [k8s.io/client-go/rest.Config.Wrap].
//
// Watches, lists and leases go at once: the first two take as long as they take, and who leads must not depend on how much the
// leader has to do.
func (l *Limiter) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{limiter: l, next: next}
}

// Config is a copy of a client's configuration whose calls go by the limiter in place of a rate.
func (l *Limiter) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(l.Wrap)
	return config
}

type transport struct {
	limiter *Limiter
	next    http.RoundTripper
}

// RoundTrip is part of http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call := describe(req)
	if call.unbounded {
		return t.next.RoundTrip(req)
	}
	if err := t.limiter.Begin(req.Context(), call.class); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	start := t.limiter.clock.Now()
	answer := Answer{Class: call.class, Kind: call.kind, Untimed: true}
	defer func() { t.limiter.End(answer) }()
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		// What comes to nothing is quicker than what does not, and says nothing of that.
		answer.Took, answer.Untimed = t.limiter.clock.Since(start), resp.StatusCode >= http.StatusBadRequest
		answer.Refused = call.isRefused(resp.StatusCode)
	}
	return resp, err
}

// WrappedRoundTripper is the transport below, for those who look for the one that they have made.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

type call struct {
	class     Class
	kind      string
	unbounded bool
	// budgeted is set if 429 says that a disruption budget is in the way.
	budgeted bool
}

// isRefused reports whether the API server has turned a call away because it has too much to do.
func (c *call) isRefused(code int) bool {
	switch code {
	case http.StatusTooManyRequests:
		return !c.budgeted
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// describe says what a request is, by its path: /api/v1/… or /apis/GROUP/VERSION/…, where the resource comes after the
// namespace if there is one, and the name and subresource after it. A proxy may have put something before that.
func describe(req *http.Request) call {
	resource, name, sub := resourceOf(req.URL.Path)
	what := call{class: Normal, kind: req.Method + " " + resource + "/" + sub, budgeted: sub == "eviction"}
	switch {
	case resource == "leases", req.Method == http.MethodGet && name == "":
		what.unbounded = true
	case resource == "events":
		what.class = Background
	case resource == "pods" && (req.Method == http.MethodDelete || sub == "binding" || sub == "eviction"),
		resource == "podgroups" && req.Method != http.MethodGet:
		what.class = Urgent
	}
	return what
}

func resourceOf(path string) (resource, name, sub string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" }); i >= 0 {
		parts = parts[i:]
	}
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "", path, ""
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	parts = append(parts, "", "")
	return parts[0], parts[1], parts[2]
}
