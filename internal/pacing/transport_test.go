package pacing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path string
		want         call
	}{
		"a victim":         {http.MethodDelete, "/api/v1/namespaces/ns/pods/p", call{class: Urgent, kind: "DELETE pods/"}},
		"a binding":        {http.MethodPost, "/api/v1/namespaces/ns/pods/p/binding", call{class: Urgent, kind: "POST pods/binding"}},
		"an eviction":      {http.MethodPost, "/api/v1/namespaces/ns/pods/p/eviction", call{class: Urgent, kind: "POST pods/eviction", budgeted: true}},
		"an intent":        {http.MethodPatch, "/apis/reprieve.dev/v1alpha1/namespaces/ns/podgroups/g/status", call{class: Urgent, kind: "PATCH podgroups/status"}},
		"a group read":     {http.MethodGet, "/apis/reprieve.dev/v1alpha1/namespaces/ns/podgroups/g", call{class: Normal, kind: "GET podgroups/"}},
		"a status":         {http.MethodPatch, "/api/v1/namespaces/ns/pods/p/status", call{class: Normal, kind: "PATCH pods/status"}},
		"a Queue's status": {http.MethodPatch, "/apis/reprieve.dev/v1alpha1/queues/q/status", call{class: Normal, kind: "PATCH queues/status"}},
		"an event":         {http.MethodPost, "/apis/events.k8s.io/v1/namespaces/ns/events", call{class: Background, kind: "POST events/"}},
		"a watch":          {http.MethodGet, "/api/v1/pods", call{class: Normal, kind: "GET pods/", unbounded: true}},
		"a list":           {http.MethodGet, "/api/v1/namespaces/ns/pods", call{class: Normal, kind: "GET pods/", unbounded: true}},
		"a lease":          {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", call{class: Normal, kind: "PUT leases/", unbounded: true}},
		"behind a proxy":   {http.MethodDelete, "/k8s/clusters/c-x/api/v1/namespaces/ns/pods/p", call{class: Urgent, kind: "DELETE pods/"}},
		"no resource":      {http.MethodGet, "/readyz", call{class: Normal, kind: "GET /"}},
		"a namespace":      {http.MethodGet, "/api/v1/namespaces/ns", call{class: Normal, kind: "GET namespaces/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), c.method, "https://server"+c.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(req); got != c.want {
				t.Errorf("It is %+v, want %+v", got, c.want)
			}
		})
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestRoundTrip checks that no call stays in flight after it has ended, and that only overload
// shrinks the bound.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	const pods, eviction = "/api/v1/namespaces/ns/pods/p/status", "/api/v1/namespaces/ns/pods/p/eviction"
	for name, c := range map[string]struct {
		path      string
		code      int
		err       error
		wantBound int
	}{
		"answered":             {path: pods, code: http.StatusOK, wantBound: startCalls},
		"not allowed":          {path: pods, code: http.StatusForbidden, wantBound: startCalls},
		"refused":              {path: pods, code: http.StatusTooManyRequests, wantBound: startCalls / 2},
		"not there":            {path: pods, code: http.StatusServiceUnavailable, wantBound: startCalls / 2},
		"failed":               {path: pods, err: errors.New("cut off"), wantBound: startCalls},
		"a budget in its way":  {path: eviction, code: http.StatusTooManyRequests, wantBound: startCalls},
		"not bounded, refused": {path: "/api/v1/pods", code: http.StatusTooManyRequests, wantBound: startCalls},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := New(clock.RealClock{})
			l.began = l.began.Add(-time.Second)
			rt := l.Wrap(transportFunc(func(*http.Request) (*http.Response, error) {
				if c.err != nil {
					return nil, c.err
				}
				return &http.Response{StatusCode: c.code, Body: http.NoBody}, nil
			}))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server"+c.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if !errors.Is(err, c.err) {
				t.Errorf("It fails with %v", err)
			}
			if resp != nil {
				_ = resp.Body.Close()
			}
			if l.underway != 0 || l.Bound() != c.wantBound {
				t.Errorf("%d are under way and %d may be, want %d", l.underway, l.Bound(), c.wantBound)
			}
		})
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// TestBodyOfACallThatIsNotMade checks that the request body is closed if the call is not made.
// RoundTripper requires that.
func TestBodyOfACallThatIsNotMade(t *testing.T) {
	t.Parallel()
	l := New(clock.RealClock{})
	for range startCalls {
		if err := l.Begin(t.Context(), Urgent); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := &closing{Reader: strings.NewReader("{}")}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://server/api/v1/namespaces/ns/pods/p/binding", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.Wrap(http.DefaultTransport).RoundTrip(req)
	if resp != nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) || !body.closed {
		t.Errorf("It ends with %v, its body closed: %t", err, body.closed)
	}
}
