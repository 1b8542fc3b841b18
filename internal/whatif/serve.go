package whatif

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// server is the API server of a Cluster, as a transport for its clients. It lists the objects of an
// inventory. Watches return no events, because the objects do not change. All other requests are
// rejected.
type server struct{ objects *inventory.Inventory }

var _ http.RoundTripper = server{}

// RoundTrip answers one request.
func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	resource, ok := resourceOf(r.URL.Path)
	switch {
	case r.Method != http.MethodGet:
		return refuse(r, http.StatusForbidden, metav1.StatusReasonForbidden, "nothing is written here")
	case !ok:
		return refuse(r, http.StatusNotFound, metav1.StatusReasonNotFound, "only lists are served here")
	case query.Get("sendInitialEvents") == "true":
		return refuse(r, http.StatusBadRequest, metav1.StatusReasonInvalid, "list first, then watch")
	case query.Get("watch") != "":
		return answer(r, http.StatusOK, silence{r.Context().Done()}), nil
	}
	body, err := s.list(resource, query)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	return answer(r, http.StatusOK, io.NopCloser(body)), nil
}

// resourceOf returns the resource that a request lists in all namespaces, from the path of the
// request. It returns false for any other request.
func resourceOf(path string) (schema.GroupVersionResource, bool) {
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); {
	case len(parts) == 3 && parts[0] == "api":
		return schema.GroupVersionResource{Version: parts[1], Resource: parts[2]}, true
	case len(parts) == 4 && parts[0] == "apis":
		return schema.GroupVersionResource{Group: parts[1], Version: parts[2], Resource: parts[3]}, true
	default:
		return schema.GroupVersionResource{}, false
	}
}

// list returns the objects of a resource that match the selectors of a query, as the JSON of a
// list.
func (s server) list(resource schema.GroupVersionResource, query url.Values) (io.Reader, error) {
	selects, err := selector(inventory.NameOf(resource), query)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(`{"metadata":{"resourceVersion":"1"},"items":[`)
	first := true
	for _, object := range s.objects.Objects(inventory.NameOf(resource)) {
		if selected, err := selects(&object); err != nil {
			return nil, err
		} else if !selected {
			continue
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(object.Raw)
	}
	out.WriteString("]}")
	return &out, nil
}

// selector parses the selectors that a scheduler's informers use: labels for all objects, and phase
// and node for pods.
func selector(resource string, query url.Values) (func(*inventory.Object) (bool, error), error) {
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, fmt.Errorf("label selector: %w", err)
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, fmt.Errorf("field selector: %w", err)
	}
	if byLabel.Empty() && byField.Empty() {
		return func(*inventory.Object) (bool, error) { return true, nil }, nil
	}
	if !byField.Empty() && resource != inventory.Pods {
		return nil, fmt.Errorf("field selector %q is known for pods only", byField)
	}
	return func(object *inventory.Object) (bool, error) {
		var of struct {
			Metadata struct {
				Labels labels.Set `json:"labels"`
			} `json:"metadata"`
			Spec struct {
				NodeName string `json:"nodeName"`
			} `json:"spec"`
			Status struct {
				Phase string `json:"phase"`
			} `json:"status"`
		}
		if err := object.Into(&of); err != nil {
			return false, err
		}
		has := fields.Set{"status.phase": cmp.Or(of.Status.Phase, string(corev1.PodPending)), "spec.nodeName": of.Spec.NodeName}
		return byLabel.Matches(of.Metadata.Labels) && byField.Matches(has), nil
	}, nil
}

func refuse(r *http.Request, code int32, reason metav1.StatusReason, message string) (*http.Response, error) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode a status: %w", err)
	}
	return answer(r, int(code), io.NopCloser(bytes.NewReader(body))), nil
}

func answer(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}

// silence is the body of a watch response that has no events.
type silence struct{ done <-chan struct{} }

// Read blocks until the watch ends.
func (s silence) Read([]byte) (int, error) {
	<-s.done
	return 0, io.EOF
}

// Close implements io.Closer.
func (silence) Close() error { return nil }
