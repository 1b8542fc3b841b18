package pacing

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// Wrap returns a transport that waits for the Limiter before each call. Pass Wrap to
// [k8s.io/client-go/rest.Config.Wrap].
//
// Watches, lists and calls to leases do not wait. Watches and lists may take any length of time.
// Leader election must not depend on the load of the leader.
func (l *Limiter) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{limiter: l, next: next}
}

// Config returns a copy of a client configuration that uses the Limiter in place of a rate limit.
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

// RoundTrip implements http.RoundTripper.
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
		// Ignore the duration of a rejected call, because a rejected call returns faster than a
		// successful one.
		answer.Took, answer.Untimed = t.limiter.clock.Since(start), resp.StatusCode >= http.StatusBadRequest
		answer.Refused = call.isRefused(resp.StatusCode)
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport. It implements RoundTripperWrapper of the
// apimachinery package net.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

type call struct {
	class     Class
	kind      string
	unbounded bool
	// budgeted is true if status 429 means that a PodDisruptionBudget forbids the eviction, not
	// that the server is overloaded.
	budgeted bool
}

// isRefused reports whether a status code means that the API server is overloaded.
func (c *call) isRefused(code int) bool {
	switch code {
	case http.StatusTooManyRequests:
		return !c.budgeted
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// describe classifies a request by its method and path. The path is /api/v1/… or
// /apis/GROUP/VERSION/…, with an optional namespace, then the resource, the name and the
// subresource. A proxy may add a prefix.
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
