package app_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
)

// TestSchedulerWithoutProxy checks that the command does not use the kubeconfig's proxy for a
// scheduler on this machine. The proxy is for the API server, and must not receive the token.
func TestSchedulerWithoutProxy(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	scheduler := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
	}))
	defer scheduler.Close()
	proxied := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied <- r.Host
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443", proxy-url: %q}}]
users: [{name: u, user: {token: secret}}]
`, proxy.URL)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	app.Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		[]string{"why", "podgroup/x", "--scheduler", scheduler.URL, "--kubeconfig", kubeconfig}, func(string) (string, bool) { return "", false })
	close(asked)
	close(proxied)
	if token := <-asked; token != "Bearer secret" {
		t.Errorf("The scheduler has %q of the user; it says %s%s", token, out.String(), errOut.String())
	}
	for host := range proxied {
		if strings.HasSuffix(scheduler.URL, host) {
			t.Errorf("The proxy is asked for %s", host)
		}
	}
}
