// Package turnstile is a reverse proxy in front of an API server, for tests. Only the process under
// test uses it. The proxy delays requests, fails them, and records the order of the requests and
// the responses.
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

// Request identifies a kind of request. Verb and Resource are the names of the API, such as
// "delete" and "pods". A create of subresource "binding" binds a pod.
type Request struct {
	Verb, Resource, Subresource, Namespace, Name string
	// Real is true for a request that is not a dry run.
	Real bool
}

// Matches reports whether r describes other. A field of r that is empty or false matches every
// value.
func (r Request) Matches(other Request) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(r.Verb, other.Verb) && same(r.Resource, other.Resource) && same(r.Subresource, other.Subresource) &&
		same(r.Namespace, other.Namespace) && same(r.Name, other.Name) && (!r.Real || other.Real)
}

// Call is a request with its position in the order of all requests.
type Call struct {
	Request
	// Came and Answered are positions in one common sequence of requests and responses. A smaller
	// number was earlier. Answered is 0 without a response.
	Came, Answered int
	// At is the time when the request came.
	At time.Time
	// Status is the HTTP status of the response.
	Status int
	// Body is the content of the request.
	Body []byte
}

// Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	server   *httptest.Server
	forward  *httputil.ReverseProxy
	resolver *request.RequestInfoFactory

	mu    sync.Mutex
	clock int
	rules []*Rule
	calls []*Call
}

// Start runs a proxy in front of the API server of a client configuration. All requests get the
// rights of that configuration, regardless of the sender. Close ends the proxy.
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
			// Events of watches must pass at once.
			FlushInterval: -1,
			// The end of a watch is not an error.
			ErrorLog: log.New(io.Discard, "", 0),
		},
	}
	p.server = httptest.NewServer(p)
	return p, nil
}

// Close ends all rules, cuts all connections and ends the proxy.
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

// WriteKubeconfig writes a kubeconfig that leads to the API server through the proxy.
func (p *Proxy) WriteKubeconfig(path string) error {
	const name = "turnstile"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: p.server.URL}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}

// Rule is the treatment of some requests by the proxy.
type Rule struct {
	request Request
	// status is the HTTP status that the proxy responds with; 0 to delay the requests.
	status int
	// late is the longest delay of a request; 0 until the rule ends.
	late time.Duration
	once sync.Once
	done chan struct{}
}

// End ends the rule. Delayed requests then continue. End may be called more than once.
func (r *Rule) End() { r.once.Do(func() { close(r.done) }) }

// wait delays a request. It returns false if the sender gives up.
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

// Hold delays requests until the rule ends. If the sender gives up before that, the request never
// reaches the API server.
func (p *Proxy) Hold(r Request) *Rule { return p.add(&Rule{request: r}) }

// Delay delays each request on its way to the API server.
func (p *Proxy) Delay(r Request, by time.Duration) *Rule { return p.add(&Rule{request: r, late: by}) }

// Fail responds to requests with an HTTP status. The API server does not see them.
func (p *Proxy) Fail(r Request, status int) *Rule { return p.add(&Rule{request: r, status: status}) }

func (p *Proxy) add(rule *Rule) *Rule {
	rule.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rule)
	return rule
}

// Calls returns the requests so far, in the order of their arrival.
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

// isDryRun reports whether a request is a dry run. A delete has that in its options, in any
// encoding.
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

// ruling returns the rules for a request that have not ended.
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

// refuse responds with an error of an API server.
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

// recorder records the start of the response, right before the sender can see it.
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

// Unwrap gives [http.ResponseController] the wrapped writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
