package deploy

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testFlow checks that the API server handles the scheduler's requests in the priority levels that
// the manifests define.
func testFlow(t *testing.T, c *cluster) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	asScheduler, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for path, schema := range map[string]string{
		"/api/v1/pods?limit=1": "reprieve",
		"/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases/" + name: "reprieve-leader-election",
	} {
		// A new FlowSchema takes effect after a moment.
		eventually(t, "flow of "+path, func(ctx context.Context) string {
			var want flowcontrolv1.FlowSchema
			if err := c.Get(ctx, client.ObjectKey{Name: schema}, &want); err != nil {
				return err.Error()
			}
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := asScheduler.Do(request)
			if err != nil {
				return err.Error()
			}
			if err := response.Body.Close(); err != nil {
				return err.Error()
			}
			if got := response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID); got != string(want.UID) {
				return fmt.Sprintf("it is %s with status %d, want %s", got, response.StatusCode, want.UID)
			}
			return ""
		})
	}
}
