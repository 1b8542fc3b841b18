// Package turnstile is a reverse proxy for an API server, for tests. It delays the requests of the
// scheduler or makes them fail, and records the order of requests and responses.
package turnstile

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Request identifies a kind of request by its verb and resource, such as "delete" and "pods". The
// binding of a pod is a "create" of the subresource "binding".
type Request struct {
	Verb, Resource, Subresource, Namespace, Name string
	// Real is true to match only requests that are not dry runs.
	Real bool
}

// Matches reports whether other is of the kind that r describes. An empty field of r matches every
// value.
func (r Request) Matches(other Request) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(r.Verb, other.Verb) && same(r.Resource, other.Resource) && same(r.Subresource, other.Subresource) &&
		same(r.Namespace, other.Namespace) && same(r.Name, other.Name) && (!r.Real || other.Real)
}

// Call is a recorded request.
type Call struct {
	Request
	// Came and Answered are the positions of the request and of its response in the sequence of all
	// requests and responses. Answered is 0 if there is no response.
	Came, Answered int
	// At is the time when the request arrived.
	At time.Time
	// Status is the HTTP status code of the response.
	Status int
	// Body is the body of the request.
	Body []byte
}

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	server   *httptest.Server
	forward  *httputil.ReverseProxy
	resolver *request.RequestInfoFactory

	mu    sync.Mutex
	clock int
	rules []*Rule
	calls []*Call
}

// Start starts a proxy for the API server of a client configuration. The proxy uses the credentials
// of this configuration for all requests. Close stops the proxy.
func Start(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		resolver: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		forward: &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: transport,
			// Forward the events of watches without a delay.
			FlushInterval: -1,
			// Ignore the log: the proxy reports the end of a watch as an error.
			ErrorLog: log.New(io.Discard, "", 0),
		},
	}
	p.server = httptest.NewServer(p)
	return p, nil
}

// Close ends all rules, closes all connections and stops the proxy.
func (p *Proxy) Close() {
	p.mu.Lock()
	rules := slices.Clone(p.rules)
	p.mu.Unlock()
	for _, r := range rules {
		r.End()
	}
	p.server.CloseClientConnections()
	p.server.Close()
}

// WriteKubeconfig writes a kubeconfig with the address of the proxy.
func (p *Proxy) WriteKubeconfig(path string) error {
	const name = "turnstile"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: p.server.URL}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}

// Rule tells the proxy to delay matching requests, or to make them fail.
type Rule struct {
	request Request
	// status is the HTTP status code of the response, or 0 to delay the requests.
	status int
	// late is the delay of each request, or 0 to delay the requests until the rule ends.
	late time.Duration
	once sync.Once
	done chan struct{}
}

// End ends the rule, and forwards the delayed requests. It may be called more than once.
func (r *Rule) End() { r.once.Do(func() { close(r.done) }) }

// wait returns when the delay of a request is over. It returns false if the client has canceled the
// request.
func (r *Rule) wait(sender context.Context) bool {
	var late <-chan time.Time
	if r.late > 0 {
		timer := time.NewTimer(r.late)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-r.done:
	case <-late:
	case <-sender.Done():
		return false
	}
	return true
}

func (r *Rule) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Hold delays matching requests until the rule ends. If the client cancels a delayed request, the
// proxy does not forward it.
func (p *Proxy) Hold(r Request) *Rule { return p.add(&Rule{request: r}) }

// Delay delays each matching request before it is forwarded.
func (p *Proxy) Delay(r Request, by time.Duration) *Rule { return p.add(&Rule{request: r, late: by}) }

// Fail responds to matching requests with an HTTP status code. It does not forward them.
func (p *Proxy) Fail(r Request, status int) *Rule { return p.add(&Rule{request: r, status: status}) }

func (p *Proxy) add(rule *Rule) *Rule {
	rule.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rule)
	return rule
}

// Calls returns the recorded requests that match r, in the order of their arrival.
func (p *Proxy) Calls(r Request) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Call
	for _, c := range p.calls {
		if r.Matches(c.Request) {
			out = append(out, *c)
		}
	}
	return out
}

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, err := p.resolver.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest || slices.Contains([]string{"get", "list", "watch"}, info.Verb) {
		p.forward.ServeHTTP(w, req)
		return
	}
	r := Request{Verb: info.Verb, Resource: info.Resource, Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.Real = !isDryRun(req, info.Verb, body)
	call := p.came(r, body)
	answer := &recorder{ResponseWriter: w, answered: func(status int) { p.answered(call, status) }}
	for _, rule := range p.ruling(r) {
		if rule.status != 0 {
			refuse(answer, rule.status, r)
			return
		}
		if !rule.wait(req.Context()) {
			answer.WriteHeader(http.StatusGatewayTimeout)
			return
		}
	}
	p.forward.ServeHTTP(answer, req)
}

// isDryRun reports whether a request is a dry run. For a delete, the information is in the body, in
// one of several encodings.
func isDryRun(req *http.Request, verb string, body []byte) bool {
	return req.URL.Query().Has("dryRun") || verb == "delete" && bytes.Contains(body, []byte(metav1.DryRunAll))
}

func (p *Proxy) came(r Request, body []byte) *Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock++
	c := &Call{Request: r, Came: p.clock, At: time.Now(), Body: body}
	p.calls = append(p.calls, c)
	return c
}

func (p *Proxy) answered(c *Call, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Answered == 0 {
		p.clock++
		c.Answered, c.Status = p.clock, status
	}
}

// ruling returns the active rules that match a request.
func (p *Proxy) ruling(r Request) []*Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = slices.DeleteFunc(p.rules, (*Rule).ended)
	var out []*Rule
	for _, rule := range p.rules {
		if rule.request.Matches(r) {
			out = append(out, rule)
		}
	}
	return out
}

// refuse responds with an error in the format of the API server.
func refuse(w http.ResponseWriter, status int, r Request) {
	reason := metav1.StatusReasonInternalError
	switch status {
	case http.StatusForbidden:
		reason = metav1.StatusReasonForbidden
	case http.StatusConflict:
		reason = metav1.StatusReasonConflict
	case http.StatusTooManyRequests:
		reason = metav1.StatusReasonTooManyRequests
		w.Header().Set("Retry-After", "1")
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(status),
		Message: strings.Join([]string{"the test has", r.Verb, "of", r.Resource, r.Name, "fail"}, " "),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// recorder calls answered before the client can read the response.
type recorder struct {
	http.ResponseWriter

	answered func(status int)
}

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	r.answered(status)
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(b []byte) (int, error) {
	r.answered(http.StatusOK)
	return r.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
