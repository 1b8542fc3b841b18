# The image of the scheduler: one static binary.
#
#   docker build --build-arg VERSION=v0.1.0 --tag reprieve-scheduler:dev .

FROM golang:1.26 AS build
WORKDIR /src
# The modules change less often than the code; they are fetched in a layer of their own.
COPY go.mod go.sum ./
COPY hack/tools/go.mod hack/tools/go.sum hack/tools/
RUN go mod download
COPY Makefile ./
COPY hack/build hack/build
COPY api api
COPY cmd cmd
COPY internal internal
COPY pkg pkg
# Without a version it is the one that the Makefile has where there is no git.
ARG VERSION
RUN make reprieve-scheduler ${VERSION:+VERSION=${VERSION}}

# No shell, no user database, no certificate authorities: the API server's is mounted with the token.
FROM scratch
COPY --from=build /src/bin/reprieve-scheduler /reprieve-scheduler
# A number, since kubelets cannot tell whether a name is not root.
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/reprieve-scheduler"]
